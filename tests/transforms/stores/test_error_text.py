"""What libraries say, as it may stand in a data set: nothing of this run, this process or this machine."""

import ast
import errno
import json
import os
import re
from pathlib import Path

import pyarrow as pa
import pytest

from shardmill.errors import JobError, UserError
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import error_text, os_error_text, output_error, writing_error


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


def test_a_full_disk_is_no_mistake(tmp_path: Path) -> None:
    """Whoever meets it: the file and what is free are in the sentence, where the system names neither."""
    path = str(tmp_path / "not" / "there")
    full = writing_error(OSError(errno.ENOSPC, "of the system"), path)

    assert re.fullmatch(rf"{path}: No space left on device; [\d,]+ of [\d,]+ bytes are free there", os_error_text(full))
    assert type(output_error("--output x", full)) is JobError
    assert str(output_error("--output x", full)).startswith("--output x: No space left on device; ")


def test_what_else_cannot_be_written_is_a_mistake() -> None:
    denied = OSError(errno.EACCES, "Permission denied", "/x")

    assert writing_error(denied, "/y") is denied
    assert os_error_text(writing_error(OSError(errno.EIO, "broken"), "/y")) == "/y: Input/output error"
    assert os_error_text(OSError("gs://bucket: 503")) == "gs://bucket: 503"
    assert type(output_error("--output x", denied)) is UserError
