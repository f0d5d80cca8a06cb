"""The library as it is shipped against other predictors on tables: `make bench-uci` writes docs/results/uci.md."""
