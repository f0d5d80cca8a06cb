"""One adapter per sampler: `run(settings) -> Outcome`, and `python -m benchmarks.samplers.NAME --problem ... --out ...`."""
