"""Reproductions of the measurements in the source documents; `ergonet reproduce NAME` runs them.

There is one folder per document, with the settings and code of its tables. Only public names of the library are used.
"""
