"""The commands of the command line, and their results for Python."""
