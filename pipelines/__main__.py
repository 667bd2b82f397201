"""`python -m pipelines`: the command line."""

from pipelines.cli import program

program()
