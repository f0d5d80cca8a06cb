"""Checks of a model and a kernel of one's own: simulation-based calibration and Geweke's joint test."""

from ergonet.checking.check import Check, check, estimate
from ergonet.checking.joint import AbstractJoint, NetworkJoint

__all__ = ["AbstractJoint", "Check", "NetworkJoint", "check", "estimate"]
