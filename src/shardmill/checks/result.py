"""What a check found: one line of a build's record."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

Severity = Literal["ok", "warn", "error", "unknown"]

_RANK: tuple[Severity, ...] = ("ok", "unknown", "warn", "error")


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What one check found of one feature of one split.

    Attributes:
      check: its name, such as `examples` or `drift`: the name of the section in a recipe that its thresholds stand in.
      severity: `unknown` where what is on record does not say; that stops nothing, and is never passed off as `ok`.
      sentence: what was found, what was expected of it, and against what; also where all is well.
      feature: "" where it is about whole examples.
      split: "" where it is about all splits.
      value: what was found; None where nothing could be measured, or it is no number.
      threshold: that which decided the severity; where all is well, the nearest that would have warned or failed. None
        where nothing was compared.
      noise_floor: how far so many examples differ by chance; a threshold below it does not fail. None where the value
        is no estimate.
    """

    check: str
    severity: Severity
    sentence: str
    feature: str = ""
    split: str = ""
    value: float | None = None
    threshold: float | None = None
    noise_floor: float | None = None

    def to_json(self) -> dict[str, Any]:
        """As it stands in a build's record; what is not finite has no JSON, and is null."""
        found = {key: getattr(self, key) for key in self.__slots__}
        return {key: None if isinstance(value, float) and not math.isfinite(value) else value
                for key, value in found.items()}  # fmt: skip

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "CheckResult":
        """The result that `to_json` gave; keys of later versions are passed over.

        Raises:
          ValueError: a key is missing, or the severity is none.
        """
        known = {key: content[key] for key in cls.__slots__ if key in content}
        if not {"check", "severity", "sentence"} <= known.keys():
            raise ValueError(
                f"a check's result has check, severity and sentence, not only {', '.join(known) or 'nothing'}"
            )
        if known["severity"] not in get_args(Severity):
            raise ValueError(f"severity {known['severity']!r}: expected one of {', '.join(get_args(Severity))}")
        return cls(**known)


def worst(results: Iterable[CheckResult]) -> Severity:
    """The gravest severity among `results`; `ok` of none."""
    return max((result.severity for result in results), key=_RANK.index, default="ok")
