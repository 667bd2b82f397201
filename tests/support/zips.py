"""Zip archives of folders."""

import io
import zipfile
from collections.abc import Mapping


def zipped(files: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """An archive with these members, and one for each of their folders, as archivers write them."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for folder in sorted({f"{name.rpartition('/')[0]}/" for name in files if "/" in name}):
            archive.writestr(folder, b"")
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()
