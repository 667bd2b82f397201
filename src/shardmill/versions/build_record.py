"""`<name>/builds/<version>.json`: how a version came to be, or why it did not, for schedulers and for the next build.

It lies beside the version's folder and not in it: it holds times and hosts' digests, and what is in the folder is the
same bytes whenever it is made.
"""

import json
import posixpath
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

from shardmill.metadata import naming
from shardmill.metadata.json_values import Value, parse_file

FORMAT = 1  # raised when a reader of the former format would misread the file

Status = Literal["published", "unchanged", "failed", "checks_failed", "locked", "outrun", "interrupted", "launched"]

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)


@dataclass(frozen=True, slots=True)
class BuildRecord:
    """What became of one build.

    Attributes:
      name, version: of the data set.
      status: "published"; "unchanged", where there was nothing to do; "failed"; "checks_failed"; "locked", where
        another job builds that version; "outrun", where it was published and LATEST names another one meanwhile;
        "interrupted", by Ctrl-C or SIGTERM; "launched", where the job was written as a template, which this says and no
        file does: the job itself writes the record of the version.
      reason: one sentence: why it was built, or why nothing was published.
      code_version: a digest of all that shapes the bytes but the input; "" where nobody asked for it.
      data_version: a digest of the input; "" likewise.
      baseline: the version that it was checked against; "" if none.
      before: the version that LATEST named as it began, which may be the one that it replaced; "" if none.
      started: in UTC, to the second: `2026-11-20T03:00:00Z`.
      seconds: that it took.
      splits: examples by split, in the splits' order.
      rejected: records that were left out.
      reused, read: files whose records were taken from an older version, and those that were read; None of a build that
        keeps no account of its files.
      checks: what was checked, each as the object that shardmill.checks.result writes.
      page_checks: what the same checks with their usual thresholds say where the build asked for none: its page shows
        them, and they stop nothing.
      notices: what the user was told.
      since: in words, what it changes of the version that LATEST named before; "" if there was none.
      shardmill: the version of shardmill that built it.
    """

    name: str
    version: str
    status: Status
    started: str
    reason: str = ""
    code_version: str = ""
    data_version: str = ""
    baseline: str = ""
    before: str = ""
    seconds: float = 0.0
    splits: Mapping[str, int] = field(default_factory=dict)
    rejected: int = 0
    checks: tuple[Mapping[str, Any], ...] = ()
    page_checks: tuple[Mapping[str, Any], ...] = ()
    notices: tuple[str, ...] = ()
    since: str = ""
    shardmill: str = ""
    reused: int | None = None
    read: int | None = None

    def is_of(self, other: "BuildRecord") -> bool:
        """Whether both are records of one build, at different times of it."""
        return (self.started, self.version, self.data_version) == (other.started, other.version, other.data_version)

    @property
    def said(self) -> "BuildRecord":
        """What of it is printed and sent: all but what its page alone shows, which grows with the columns, where a
        scheduler takes 48 kB of it."""
        return replace(self, page_checks=())

    def to_json(self) -> str:
        """The text of the file: one line."""
        return json.dumps({"format": FORMAT, **asdict(self), "seconds": round(self.seconds, 3)}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str | bytes, name: str) -> "BuildRecord":
        """Parse the text of the file called `name`. Keys that are not known here are passed over.

        Raises:
          CorruptDataError: it is not the record of a build, or one of a newer format; the message names the file and
            what in it is no good.
        """
        return parse_file(text, name, FORMAT, "is not the record of a build", cls._of)

    @classmethod
    def _of(cls, content: Value) -> "BuildRecord":
        return cls(
            name=content["name"].text(),
            version=content["version"].text(),
            status=content["status"].one_of(*get_args(Status)),
            started=content["started"].matching(_TIME, "a time in UTC, such as 2026-11-20T03:00:00Z"),
            reason=content.get("reason", "").text(),
            code_version=content.get("code_version", "").text(),
            data_version=content.get("data_version", "").text(),
            baseline=content.get("baseline", "").text(),
            before=content.get("before", "").text(),
            seconds=_seconds(content.get("seconds", 0.0)),
            splits={split: count.integer() for split, count in content.get("splits", {}).entries().items()},
            rejected=content.get("rejected", 0).integer(),
            checks=tuple(check.mapping() for check in content.get("checks", []).items()),
            page_checks=tuple(check.mapping() for check in content.get("page_checks", []).items()),
            notices=tuple(notice.text() for notice in content.get("notices", []).items()),
            since=content.get("since", "").text(),
            shardmill=content.get("shardmill", "").text(),
            reused=_count(content.get("reused", None)),
            read=_count(content.get("read", None)),
        )


def _count(value: Value) -> int | None:
    return None if value.value is None else value.integer()


def _seconds(value: Value) -> float:
    if value.number() < 0:
        raise value.wrong("a number of seconds")
    return float(value.number())


def record_path(parent: str, version: str) -> str:
    """The record of the build that published `version`, of the data set whose versions lie in `parent`; or of the last
    that did not, while none has."""
    return posixpath.join(parent, naming.BUILDS, f"{version}.json")


def page_path(record: str) -> str:
    """The page about a build, beside its `record`."""
    return f"{record.removesuffix('.json')}.html"


def failed_record_path(parent: str, version: str) -> str:
    """The record of a build that should have replaced `version`, which stands, and its own record with it; until a
    later one does."""
    return posixpath.join(parent, naming.BUILDS, f"{version}.failed.json")
