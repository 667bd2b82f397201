"""Published versions: build records, tags and the LATEST pointer."""

import json
import posixpath
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from typing import Any, Literal

from shardmill.errors import CorruptDataError, UserError
from shardmill.filesystem import Files, FolderLister, read_if_exists
from shardmill.metadata import file_names
from shardmill.metadata.json_values import Value, parse_fields, parse_file
from shardmill.text import listed, mask_urls

FORMAT = 1  # raised when a reader of the previous format would misread the file

Status = Literal[
    "published", "unchanged", "failed", "checks_failed", "locked", "outrun", "outdated", "interrupted", "launched"
]

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_TIME_MESSAGE = "a time in UTC, such as 2026-11-20T03:00:00Z"


def _parse_count(value: Value) -> int | None:
    return None if value.value is None else value.integer()


def _parse_seconds(value: Value) -> float:
    if value.number() < 0:
        raise value.wrong("a number of seconds")
    return float(value.number())


@dataclass(frozen=True, slots=True)
class BuildRecord:
    """The outcome of one build."""

    name: str  # of the dataset
    version: str
    # `unchanged`: nothing to do; `locked`: another job builds it; `outrun`: LATEST names another version;
    # `outdated`: the published version is kept, although its input has changed since;
    # `interrupted`: Ctrl-C or SIGTERM; `launched`: only returned, for a job written as a template
    status: Status
    started: str = field(metadata={"parse": lambda value: value.matching(_TIME.fullmatch, _TIME_MESSAGE)})
    reason: str = ""  # one sentence: why it was built, or not published
    code_version: str = ""  # digest of all that shapes the bytes except the input; "" if not computed
    data_version: str = ""  # digest of the input; "" if not computed
    baseline: str = ""  # version it was checked against; "" if none
    before: str = ""  # version in LATEST at the start, possibly the replaced one; "" if none
    seconds: float = field(default=0.0, metadata={"parse": _parse_seconds})  # duration
    splits: Mapping[str, int] = field(default_factory=dict)  # examples by split, in order
    rejected: int = 0  # number of rejected records
    checks: tuple[Mapping[str, Any], ...] = ()  # objects written by shardmill.quality.limits
    # checks with default thresholds if none were requested; only shown on the page
    page_checks: tuple[Mapping[str, Any], ...] = ()
    # of a version that was published although checks failed: `checks` that did, `by` whom, `at` and the `reason`
    accepted: Mapping[str, Any] = field(default_factory=dict)
    notices: tuple[str, ...] = ()  # shown to the user
    since: str = ""  # changes since the version in LATEST, as text; "" if none
    shardmill: str = ""  # version of shardmill
    # files reused from an older version, and files that were read; None if not counted
    reused: int | None = field(default=None, metadata={"parse": _parse_count})
    read: int | None = field(default=None, metadata={"parse": _parse_count})

    def is_same_build(self, other: "BuildRecord") -> bool:
        """Return True if both are records of the same build, at different times."""
        return (self.started, self.version, self.data_version) == (other.started, other.version, other.data_version)

    @property
    def without_page_checks(self) -> "BuildRecord":
        """Return the record as printed and sent; `page_checks` grow with the columns, and schedulers accept 48 kB."""
        return replace(self, page_checks=())

    def to_json(self) -> str:
        """Return the text of the build record's file, one line of JSON."""
        content = mask_urls({"format": FORMAT, **asdict(self), "seconds": round(self.seconds, 3)})
        return json.dumps(content, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str | bytes, name: str) -> "BuildRecord":
        """Parse the text of a build record, the file `name`; unknown keys are ignored.

        Raise a CorruptDataError if it is not a build record, or of a newer format; the message names the file and the
        faulty value.
        """
        problem = "is not the record of a build"
        return parse_file(
            text, name, FORMAT, problem, lambda content: cls(**parse_fields(cls, content, with_defaults=True))
        )


def record_path(parent: str, version: str) -> str:
    """Return the path of the build record of `version`, of the dataset whose versions are in `parent`.

    While the version is not published, it is the record of the last failed build.
    """
    return posixpath.join(parent, file_names.BUILDS, f"{version}.json")


def page_path(record: str) -> str:
    """Return the path of the page about a build, next to its `record`."""
    return f"{record.removesuffix('.json')}.html"


def failed_record_path(parent: str, version: str) -> str:
    """Return the path of the record of a failed attempt to replace a published version."""
    return posixpath.join(parent, file_names.BUILDS, f"{version}.failed.json")


_MAX_SHOWN_VERSIONS = 5  # versions; to look whether one is published costs a request


def describe_published_versions(files: Files, directory: str) -> str:
    """Return the end of an error message about `directory`, a version's folder or its parent: the versions published
    there, and how to open one; "" if they cannot be listed.
    """
    is_version = file_names.is_version(posixpath.basename(directory))
    above = (posixpath.dirname(directory) or ".") if is_version else directory
    found = _find_versions(files, above, file_names.SUCCESS, _MAX_SHOWN_VERSIONS + 1)
    if found is None:
        return ""
    if not found:
        return f"; no version is published in {above}" if is_version else ""
    shown = listed(found, _MAX_SHOWN_VERSIONS, ", …")
    return f"; published in {above}: {shown}; open {posixpath.join(above, found[0])}"


def find_interrupted_publications(files: Files, above: str) -> list[str]:
    """Return the versions in a folder whose publication was begun but not completed, newest first."""
    return _find_versions(files, above, file_names.PUBLISHING, _MAX_SHOWN_VERSIONS) or []


def _find_versions(files: Files, above: str, file: str, limit: int) -> list[str] | None:
    if not isinstance(files, FolderLister):
        return None
    try:
        versions = sorted(filter(file_names.is_version, files.folders(above)), key=version_numbers, reverse=True)
        return list(islice((name for name in versions if files.exists(posixpath.join(above, name, file))), limit))
    except OSError:
        return None


def version_numbers(version: str) -> list[int]:
    """Return the three numbers of a version, to sort versions by."""
    return [int(number) for number in version.split(".")]


def describe_comparison(version: str, baseline: str) -> str:
    """Describe the baseline of a version, with a hint if it is newer than the version; "" without one."""
    if not baseline:
        return ""
    newer = version_numbers(baseline) > version_numbers(version)
    return f"compared with {baseline}" + (", which is newer: `baseline:` in a recipe names another" if newer else "")


_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", re.ASCII)
_MAX_QUOTED = 60  # letters of what a file should not hold


def is_tag(text: str) -> bool:
    """Return True if `text` is a valid tag: letters, digits, `_`, `.` and `-`, but neither a version nor LATEST."""
    taken = file_names.is_version(text) or text.upper() == file_names.LATEST
    return not taken and _TAG.fullmatch(text) is not None and not text.endswith(file_names.TEMP_SUFFIX)


def tag_path(directory: str, tag: str) -> str:
    """Return the path of a tag's file for the dataset in `directory`."""
    return posixpath.join(directory, file_names.TAGS, tag)


def resolve_version(files: Files, directory: str, requested: str) -> tuple[str, str]:
    """Return the version that a version, a tag or LATEST names, and the path of the file that does; "" for a version.

    Raise a UserError if there is no such tag, or it is invalid. Raise a CorruptDataError if the file of the tag, or
    LATEST, does not hold a version.
    """
    if file_names.is_version(requested):
        return requested, ""
    found = None
    if requested == file_names.LATEST:
        found = read_latest(files, directory)
    elif is_tag(requested):
        found = _read_version(files, directory, tag_path(directory, requested))
    if found is None:
        raise UserError(
            f"{directory} has no version or tag {requested!r}{describe_published_versions(files, directory)}"
        )
    return found


def read_latest(files: Files, directory: str) -> tuple[str, str] | None:
    """Return the version in LATEST and the path of that file; None if there is no such file."""
    return _read_version(files, directory, posixpath.join(directory, file_names.LATEST))


def _read_version(files: Files, directory: str, path: str) -> tuple[str, str] | None:
    data = read_if_exists(files, path)
    if data is None:
        return None
    version = data.decode(errors="replace").strip()
    if not file_names.is_version(version):
        raise CorruptDataError(
            f"{path} holds {version[:_MAX_QUOTED]!r}; expected a version, such as"
            f" 1.0.0{describe_published_versions(files, directory)}"
        )
    return version, path
