"""Adaptation: learners of step sizes, metrics and trajectory lengths, and warm-ups as stages that name them."""
