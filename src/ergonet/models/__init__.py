"""Models: networks, priors, likelihoods, and posteriors of networks as targets."""
