"""Trajectories: how a transition moves through phase space, and which of its states it returns."""
