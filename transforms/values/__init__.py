"""Prepare feature values: preprocessing, tokenization and sequences."""
