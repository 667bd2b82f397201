"""Whether a job takes records of files that did not change from an older version, instead of reading those files."""

from dataclasses import dataclass
from typing import Any, ClassVar

from shardmill.metadata.naming import is_version
from shardmill.transforms.options.declare import Options, ValueMistake, flag

NO, RECORD, LATEST = "no", "record", "LATEST"


def parse_reuse(value: Any) -> str:
    """What to take records from.

    Raises:
      ValueMistake: it is neither a version nor one of three words.
    """
    if isinstance(value, str) and (value in (NO, RECORD, LATEST) or is_version(value)):
        return value
    raise ValueMistake(f"{value!r}: expected {NO}, {RECORD}, {LATEST} or a version such as 1.0.0")


@dataclass(frozen=True, kw_only=True)
class ReuseOptions(Options):
    """What is taken from an older version; the output is the same bytes, whatever it is."""

    title: ClassVar[str] = "run"

    reuse: str = flag(
        NO,
        "LATEST or a VERSION: take files that are still what they were from its shards, and read the others; record:"
        " read all, and remember what the next build needs for that",
        parse=parse_reuse,
        metavar="LATEST|VERSION|record|no",
        shapes=False,
    )
