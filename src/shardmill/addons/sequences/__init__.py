"""Rows that are gathered into one example for each value of a column, in the order of another."""
