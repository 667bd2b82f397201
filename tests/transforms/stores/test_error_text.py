"""What libraries say, as it may stand in a data set: nothing of this run, this process or this machine."""

import ast
import errno
import json
import os
from pathlib import Path

import pyarrow as pa
import pytest

from transforms.stores import storage
from transforms.stores.error_text import error_text


class Nameless:
    """An object that is shown with its address."""


def fault(function: object, *arguments: object) -> Exception:
    """What a call raises."""
    assert callable(function)
    with pytest.raises((OSError, TypeError, ValueError)) as raised:
        function(*arguments)
    return raised.value


def test_addresses_are_left_out() -> None:
    refused = fault(ast.literal_eval, "__import__('os')")
    assert " at 0x" in str(refused)
    assert error_text(refused) == "malformed node or string on line 1: <ast.Call object>"
    assert error_text(fault(json.dumps, {"a": {Nameless()}})) == "Object of type set is not JSON serializable"
    assert error_text(ValueError(f"{Nameless()}, {Nameless()}!")).count("Nameless object>") == 2
    assert error_text(ValueError("byte 0x80 at position 3")) == "byte 0x80 at position 3"


def test_paths_are_left_out(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    for function in (open, os.stat, pa.OSFile):
        error = fault(function, missing)
        assert missing in str(error)
        assert error_text(error) == os.strerror(errno.ENOENT)
    assert error_text(fault(storage.size, str(tmp_path))) == "not a regular file"
    assert error_text(FileNotFoundError("gs://bucket/object: not found")) == "no such file"
    assert error_text(PermissionError("gs://bucket/object: 403 denied")) == os.strerror(errno.EACCES)


def test_lines_become_one() -> None:
    error = ValueError("page 3 is\n  damaged\n\nin a cellar")
    assert error_text(error) == "page 3 is damaged in a cellar"
    assert error_text(error, lines=1) == "page 3 is"
    assert error_text(ValueError()) == ""
