"""Predictions of a posterior: in bounded memory, scored, and with their calibration."""
