"""One adapter per sampler: `prepare` returns the timed function, and `python -m benchmarks.samplers.NAME` runs it."""
