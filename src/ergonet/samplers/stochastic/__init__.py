"""Transition kernels whose gradients come from minibatches."""
