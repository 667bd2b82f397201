"""Checks of the whole program with other programs: real clusters, browsers, databases and other libraries."""
