"""No byte of a data set is unguarded: `_SUCCESS` holds the checksum of the manifest, and the manifest those of all
other files."""

from collections.abc import Mapping

import google_crc32c

from shardmill.metadata.naming import MANIFEST


def crc32c(data: bytes) -> str:
    """The crc32c of `data` as it stands in files: 8 hex digits."""
    return f"{google_crc32c.value(data):08x}"


def checksums(files: Mapping[str, bytes]) -> dict[str, str]:
    """The crc32c of the bytes of each file by its name, as `Manifest.files` has them."""
    return {name: crc32c(data) for name, data in sorted(files.items())}


def seal(manifest: bytes) -> str:
    """The text of the `_SUCCESS` of a data set whose manifest is `manifest`."""
    return f"{MANIFEST} crc32c {crc32c(manifest)}\n"
