"""Conversion jobs: input kinds, Beam graphs, runners and job control."""
