"""What is said of a data set, and how it is published; `_SUCCESS` last."""
