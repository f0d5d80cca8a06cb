"""One adapter per sampler: `prepare(settings)` returns what is timed, `python -m benchmarks.samplers.NAME` runs it."""
