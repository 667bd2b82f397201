"""`python -m shardmill.pipelines`: the command line."""

from shardmill.pipelines.cli import program

program()
