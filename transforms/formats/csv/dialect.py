"""What a CSV text is written with."""

from dataclasses import dataclass

# The texts that stand for a missing value, unless others are given: what databases, spreadsheets, R and pandas write.
MISSING = ("", "NA", "N/A", "n/a", "NULL", "null", "#N/A", "<NA>")


@dataclass(frozen=True, slots=True)
class Dialect:
    """The two bytes that a CSV text is written with, as one-byte strings; no quote, b"", if fields are never quoted."""

    delimiter: bytes = b","
    quote: bytes = b'"'
