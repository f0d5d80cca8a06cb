"""Transition kernels, one per file."""
