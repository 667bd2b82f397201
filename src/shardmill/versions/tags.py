"""Tags: names that people give to versions. `TAGS/<tag>`, beside the versions, holds the version."""

import posixpath
import re

from shardmill.errors import CorruptDataError, UserError
from shardmill.filesystems.local import Files, read_if_there
from shardmill.metadata import naming
from shardmill.versions.published import published_versions

_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", re.ASCII)
_SHOWN = 60  # letters of what a file should not hold


def is_tag(text: str) -> bool:
    """Whether a version may be called `text`: letters, digits, `_`, `.` and `-`, and neither a version nor LATEST."""
    taken = naming.is_version(text) or text.upper() == naming.LATEST
    return not taken and _TAG.fullmatch(text) is not None and not text.endswith(naming.TEMP_SUFFIX)


def tag_path(directory: str, tag: str) -> str:
    """The file of a tag of the data set in `directory`."""
    return posixpath.join(directory, naming.TAGS, tag)


def find_version(files: Files, directory: str, wanted: str) -> tuple[str, str]:
    """The version that `wanted`, a version, a tag or LATEST, is in the data set in `directory`, and the file that says
    so, "" where it is a version itself.

    Raises:
      UserError: there is no such tag, or it can be none.
      CorruptDataError: the file of the tag, or LATEST, names no version.
    """
    if naming.is_version(wanted):
        return wanted, ""
    path = posixpath.join(directory, naming.LATEST) if wanted == naming.LATEST else tag_path(directory, wanted)
    found = _named(files, directory, path) if wanted == naming.LATEST or is_tag(wanted) else None
    if found is None:
        raise UserError(f"{directory} has no version or tag {wanted!r}{published_versions(files, directory)}")
    return found, path


def find_latest(files: Files, directory: str) -> tuple[str, str] | None:
    """As `find_version` of LATEST; None where there is no such file."""
    path = posixpath.join(directory, naming.LATEST)
    found = _named(files, directory, path)
    return None if found is None else (found, path)


def _named(files: Files, directory: str, path: str) -> str | None:
    """The version that a file names, None if there is no such file."""
    data = read_if_there(files, path)
    if data is None:
        return None
    version = data.decode(errors="replace").strip()
    if not naming.is_version(version):
        raise CorruptDataError(
            f"{path} holds {version[:_SHOWN]!r}; expected a version, such as"
            f" 1.0.0{published_versions(files, directory)}"
        )
    return version
