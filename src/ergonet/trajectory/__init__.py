"""Trajectories: how a transition moves through phase space, and which state it returns."""
