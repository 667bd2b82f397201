"""Run tests with the extension module of another folder: as `make check NAME=sanitize` does."""

import sys
from pathlib import Path

import pytest

import shardmill

if __name__ == "__main__":
    folder = str(Path(sys.argv[1]).resolve())
    shardmill.__path__.insert(0, folder)
    from shardmill import _native

    assert str(_native.__file__).startswith(folder), _native.__file__
    sys.exit(pytest.main(["-p", "no:cacheprovider", *sys.argv[2:]]))
