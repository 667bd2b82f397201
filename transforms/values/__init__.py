"""Prepare feature values: preprocessing and sequences."""
