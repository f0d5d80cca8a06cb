"""Hamiltonian dynamics: phase points, metrics, integrators and energies."""
