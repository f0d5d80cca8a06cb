"""Speed and size against other samplers, as ratios in one interleaved run; `python -m benchmarks.run`."""
