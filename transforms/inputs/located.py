"""Where a file lies that something in a folder names: in that folder, or elsewhere."""

import os
import posixpath
import re

from shardmill.transforms.stores import storage
from shardmill.transforms.stores.web import web_reason

_PLAIN = re.compile(r"(?:[^/.:\0][^/:\0]*/)*[^/.:\0][^/:\0]*", re.DOTALL)  # below the folder, and in its normal form


def locate(name: str, folder: str, allow_outside: bool, whose: str = "the manifest's folder") -> tuple[str, str | None]:
    """(identity, URI or None) of a file that is called `name` as seen from `folder`, in words `whose`.

    Raises:
      ValueError: it lies outside, which is not allowed, or its name can be none.
    """
    if _PLAIN.fullmatch(name):
        return name, None  # as all that follows would find
    if "\0" in name:
        raise ValueError("the file name holds a NUL byte")
    if why := web_reason(name):
        raise ValueError(why)
    local = storage.is_local(name)
    if local and name.startswith("/"):
        name = posixpath.normpath(name)
    root = os.path.abspath(folder) if local and storage.is_local(folder) else folder
    if name.startswith("/") or not local:
        name = name.removeprefix(f"{root.rstrip('/')}/")
    absolute = name.startswith("/") or not storage.is_local(name)
    relative = posixpath.normpath(name)
    if not absolute and relative != ".." and not relative.startswith("../"):
        return relative, None
    if not allow_outside:
        raise ValueError(f"lies outside {whose}; give --allow_outside if that is meant")
    return name, name if absolute else posixpath.normpath(storage.join(folder, name))
