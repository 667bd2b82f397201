"""Rows of tables as sequences: one example for each id, its rows in the order of their times."""
