"""Builds a model and a kernel from settings, for the command, the estimators and settings files.

| module | contents |
| --- | --- |
| `rules` | rules for the values of settings, and their form on the command line |
| `settings` | all settings with their defaults, in tables; merging of defaults, files and options |
| `builtin` | default settings of the built-in data sets |
| `renamed` | names that older versions wrote to files |
| `build` | construction of the model and the kernel |
"""
