"""Run the `shardmill` command, also as `python -m shardmill`."""

import importlib
from typing import NoReturn


def main() -> NoReturn:
    """Run the command and end the process with its exit status."""
    # By name: this package is below the command line and imports nothing of it.
    importlib.import_module("shardmill.pipelines.cli").program()
    raise AssertionError("the command ends the process")


if __name__ == "__main__":
    main()
