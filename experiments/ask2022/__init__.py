"""Experiments of chapter 7 of the thesis Ask2022, on a cross section that is a formula."""
