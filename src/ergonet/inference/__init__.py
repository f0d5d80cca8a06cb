"""Running chains: one loop for every kernel and target."""
