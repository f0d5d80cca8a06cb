"""The command `ergonet`: fit, predict, report, diagnose, verify, datasets, reproduce.

Modules here import nothing heavy at the top, so that `--help` answers without importing JAX.
"""
