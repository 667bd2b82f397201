"""The versions that are published in a folder, or half published, for errors about one that is not."""

import posixpath
from collections.abc import Iterator
from itertools import islice

from shardmill.filesystems.local import Files, Folders
from shardmill.metadata import naming

_SHOWN = 5  # versions; to look whether one is published costs a request


def published_versions(files: Files, directory: str) -> str:
    """The end of a sentence about `directory`, a version's or the one above: what is published there, and how to open
    it.

    It is empty where `directory` has nothing to do with versions, and where that cannot be asked: the error itself is
    to be told.
    """
    is_version = naming.is_version(posixpath.basename(directory))
    above = (posixpath.dirname(directory) or ".") if is_version else directory
    if not isinstance(files, Folders):
        return ""
    try:
        found = list(islice(_with(files, above, files.folders(above), naming.SUCCESS), _SHOWN + 1))
    except OSError:
        return ""
    if not found:
        return f"; no version is published in {above}" if is_version else ""
    shown = ", ".join(found[:_SHOWN]) + (", …" if len(found) > _SHOWN else "")
    return f"; published in {above}: {shown}; open {posixpath.join(above, found[0])}"


def unended_publications(files: Files, above: str) -> list[str]:
    """The versions in the folder `above` whose publication was begun and not ended, the newest first; none where that
    cannot be asked."""
    if not isinstance(files, Folders):
        return []
    try:
        return list(islice(_with(files, above, files.folders(above), naming.PUBLISHING), _SHOWN))
    except OSError:
        return []


def _with(files: Files, above: str, names: list[str], file: str) -> Iterator[str]:
    """Those of `names` that are versions and hold `file`, the newest first."""
    versions = sorted(filter(naming.is_version, names), key=numbers, reverse=True)
    return (version for version in versions if files.exists(posixpath.join(above, version, file)))


def numbers(version: str) -> list[int]:
    """The three numbers of a version, by which versions are ordered."""
    return [int(number) for number in version.split(".")]


def comparison(version: str, baseline: str) -> str:
    """In words, what a version was compared with: who builds an older one anew may want another; "" if with none."""
    if not baseline:
        return ""
    newer = numbers(baseline) > numbers(version)
    return f"compared with {baseline}" + (", which is newer: `baseline:` in a recipe names another" if newer else "")
