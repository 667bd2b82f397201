"""Rows that are not in files: of programs, pipelines, functions and queries."""
