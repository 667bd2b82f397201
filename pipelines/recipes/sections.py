"""What a recipe says beside the flags of its command: one dataclass a section, declared as flags are."""

from dataclasses import dataclass
from typing import Any, ClassVar

from shardmill.errors import UserError
from shardmill.metadata import naming
from shardmill.pipelines.recipes.durations import parse_days, parse_duration
from shardmill.transforms.options.declare import Options, ValueMistake, flag

AUTO = "auto"
_MAX_DAYS = 3_660  # of a window: ten years of folders
_MAX_STATUS = 125  # above, shells and schedulers have meanings of their own


def parse_url(value: Any) -> str:
    """An http or https URL.

    Raises:
      ValueMistake: it is none.
    """
    text = str(value)
    if not text.startswith(("https://", "http://")) or any(letter.isspace() for letter in text):
        raise ValueMistake("expected a URL that begins with https:// or http://")  # which may hold a secret
    return text


def check_status(status: int) -> str | None:
    """What is wrong with an exit status, None if nothing."""
    return None if 0 <= status <= _MAX_STATUS else f"expected 0 to {_MAX_STATUS}"


@dataclass(frozen=True, kw_only=True)
class FreshnessOptions(Options):
    """How old the newest input may be. Lengths of time are seconds."""

    title: ClassVar[str] = "freshness"

    warn_after: float | None = flag(None, "the newest input is older: a warning", parse=parse_duration)
    error_after: float | None = flag(None, "the newest input is older: the source has stopped", parse=parse_duration)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.warn_after and self.error_after and self.error_after < self.warn_after:
            raise UserError("--error_after is less than --warn_after; expected the error to come after the warning")


@dataclass(frozen=True, kw_only=True)
class RetainOptions(Options):
    """Which older versions are deleted: those that both allow to be. Without the section, none."""

    title: ClassVar[str] = "retain"

    min_versions: int | None = flag(
        None, "as many of the newest versions stay", check=lambda number: None if number >= 1 else "expected at least 1"
    )
    max_age: float | None = flag(None, "younger versions stay", parse=parse_duration)

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.min_versions is None) != (self.max_age is None):
            raise UserError("give --min_versions and --max_age, for both must allow that a version is deleted")


@dataclass(frozen=True, kw_only=True)
class FailureOptions(Options):
    """What is done when nothing was published."""

    title: ClassVar[str] = "on_failure"

    webhook: str | None = flag(None, "gets the record of the build, by POST", parse=parse_url)


@dataclass(frozen=True, kw_only=True)
class BuildOptions(Options):
    """What a rebuild is told beside the sections.

    Attributes:
      window: days that the dates in the input stand for, up to --date; 1 for that day alone.
    """

    title: ClassVar[str] = "rebuild"

    version: str = flag(AUTO, "three numbers, which may hold {YYYY}, {MM} and {DD}; auto is the next patch")
    labels: str = flag("rebuild", "keep: the ids of the classes stay as they are", choices=("keep", "rebuild"))
    schema: str = flag("rebuild", "keep: the types of the columns stay as they are", choices=("keep", "rebuild"))
    like: str | None = flag(None, "a version, a tag or LATEST: its labels and its schema are kept")
    fingerprint: str = flag(
        "metadata",
        "what tells that an input changed: its name, size and time, or all of it",
        choices=("metadata", "content"),
    )
    baseline: str | None = flag(
        None, "a version, a tag or LATEST: what the checks compare with", default_words="LATEST"
    )
    window: int = flag(
        1,
        "days that the dates in the input stand for, such as 7d",
        parse=parse_days,
        check=lambda days: None if 1 <= days <= _MAX_DAYS else f"expected 1d to {_MAX_DAYS}d",
    )
    unchanged_status: int = flag(
        0,
        "the exit status where there was nothing to do, such as 99 for Airflow to skip what follows",
        check=check_status,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not naming.is_version(self.version) and self.version != AUTO:
            raise UserError(f"--version {self.version!r}: expected three numbers, such as 1.0.0, or auto")
