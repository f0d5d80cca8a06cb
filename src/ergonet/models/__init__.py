"""Models: networks, priors, likelihoods, and the target that sampling sees."""
