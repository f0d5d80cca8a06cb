"""What a warm-up learns: step sizes, metrics, trajectory lengths. Stages are data; `warmup.py` has the recipes."""
