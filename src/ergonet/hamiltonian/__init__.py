"""Hamiltonian dynamics: phase points, metrics, integrators and the energy, each in one place."""
