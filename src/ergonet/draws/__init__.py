"""Draws: the record of a run, its storage, and functions of it that need no sampler."""
