"""Tables of Lau, *Exploring Dynamic Hamiltonian Monte Carlo for Bayesian Neural Networks* (2018), chapter 4."""
