"""Transition kernels, one per module."""
