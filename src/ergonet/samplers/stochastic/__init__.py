"""Transition kernels with minibatch gradients."""
