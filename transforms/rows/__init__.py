"""Rows that are not in files: of programs, pipelines and functions."""
