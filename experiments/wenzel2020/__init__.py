"""Cold posteriors, after Wenzel2020."""
