"""Posterior predictions in bounded memory, their scores, and their calibration."""
