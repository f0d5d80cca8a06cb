"""Targets: their contract, their capabilities, and targets made from densities and NumPyro programs."""
