"""The format of a fitted model: the directory of a run or of a saved estimator."""
