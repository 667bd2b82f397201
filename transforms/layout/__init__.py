"""Decide features, labels and splits from the options and the summary of the input."""
