"""The `shardmill` command, also as `python -m shardmill`."""

import importlib
import sys
from typing import NoReturn

from shardmill.errors import UserError
from shardmill.installation import own_packages


def program() -> NoReturn:
    """See to it that the packages of the command are ours, and run it."""
    try:
        own_packages.put_first()
    except UserError as error:
        print(f"shardmill: error: {error}", file=sys.stderr)
        sys.exit(2)
    # By name: this package stands below the command, and imports nothing of it.
    importlib.import_module("pipelines.cli").program()
    raise AssertionError("the command ends the process")


if __name__ == "__main__":
    program()
