"""Experiments of chapter 4 of the thesis Kim2018."""
