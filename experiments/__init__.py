"""Reproductions of what the source documents measured; `ergonet reproduce NAME` runs them.

One folder for each document, with settings and code of its tables. Only public names of the library are used.
"""
