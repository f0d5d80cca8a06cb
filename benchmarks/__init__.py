"""Time and memory compared with other samplers, as ratios within one interleaved run: `python -m benchmarks.run`."""
