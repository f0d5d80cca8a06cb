"""Experiments of *Reproducing the paper: Stochastic Gradient Hamiltonian Monte Carlo* (document 002).

Chen, Fox and Guestrin, *Stochastic Gradient Hamiltonian Monte Carlo* (2014), is the paper that it reproduces.
"""
