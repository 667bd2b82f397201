"""Which manifests there are, as options have it."""

import os
import re
from typing import Any

from shardmill.transforms.options.declare import ValueMistake
from shardmill.transforms.options.output import parse_path

_SPLIT = re.compile(r"(\w+)=(.+)")
_COMMA = re.compile(r",(?![^{}]*\})")  # that stands in no choice of a glob

Given = tuple[tuple[str, str], ...]


def parse_manifests(value: Any) -> Given:
    """(split, file or glob) of each `train=a.csv,b.csv`, "" where there is no split; or pairs, or a mapping.

    Raises:
      ValueMistake: one of them is no path, or is there twice, or some have a split and others not.
    """
    items = value.items() if isinstance(value, dict) else (value,) if isinstance(value, str) else value
    pairs: list[tuple[str, str]] = []
    for item in items:
        split, paths = _parsed(item) if isinstance(item, str) else item
        several = [paths] if isinstance(paths, str) and _is_path(paths) else _split(paths)
        pairs += [(str(split), parse_path(path)) for path in several]
    if len({bool(split) for split, _ in pairs}) > 1:
        raise ValueMistake("some files have a split and others not; give each one, as in train=a.csv")
    paths = [path for _, path in pairs]
    if twice := [path for path in paths if paths.count(path) > 1]:
        raise ValueMistake(f"the file {twice[0]} is there twice")
    return tuple(pairs)


def _parsed(text: str) -> tuple[str, str]:
    match = _SPLIT.fullmatch(text) if not _is_path(text) else None
    return (match[1], match[2]) if match else ("", text)


def _split(paths: Any) -> list[Any]:
    return _COMMA.split(paths) if isinstance(paths, str) else list(paths)


def _is_path(text: str) -> bool:
    """Whether a text as it stands is a file, whatever signs are in its name."""
    return os.path.lexists(text)
