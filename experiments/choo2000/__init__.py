"""Tables of Choo, *Learning Hyperparameters for Neural Network Models Using Hamiltonian Dynamics* (2000)."""
