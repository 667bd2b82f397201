"""The headers of many members at once: of plain ones, as almost all are. Pure.

`shardmill.transforms.formats.tar.members` has them one at a time, and all others.
"""

from typing import Any

from shardmill.transforms.formats.tar.members import Group

try:
    from shardmill._native import scan_members as _scan_members
except ImportError:  # not compiled

    def _scan_members(data: Any, base: int, at: int) -> list[Group]:
        """As if none were plain."""
        return []


def scan_members(data: bytes | memoryview, base: int, position: int) -> list[Group]:
    """The members from `position` on that are plain, up to the first that is not, or whose bytes are not all there.

    Args:
      data: a part of the file.
      base: where it begins.
      position: of a header.
    """
    return _scan_members(data, base, position - base)
