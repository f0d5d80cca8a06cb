"""Experiments of the report ChenReport, which reproduces the paper Chen2014 and adds SG-NUTS."""
