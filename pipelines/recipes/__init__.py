"""Recipes: the flags of a job, and what else a scheduled rebuild is told, in a YAML file."""
