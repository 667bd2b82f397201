"""Limits that checks compare with, and the results of checks."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    from tensorflow_metadata.proto.v0 import schema_pb2

Severity = Literal["ok", "warn", "error", "unknown"]

_RANK: tuple[Severity, ...] = ("ok", "unknown", "warn", "error")


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check, for one feature of one split."""

    check: str  # name, as in a recipe's section of thresholds
    severity: Severity  # `unknown` if data are missing; it stops nothing, but is never reported as `ok`
    sentence: str  # finding, expectation and baseline, also if all is well
    feature: str = ""  # "" if about whole examples
    split: str = ""  # "" if about all splits
    value: float | None = None  # None if not measured or not a number
    threshold: float | None = None  # that decided, or the nearest one if `ok`; None without comparison
    # difference by chance; lower thresholds never fail; None if the value is no estimate
    noise_floor: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object in a build record; values that are not finite become null."""
        found = {key: getattr(self, key) for key in self.__slots__}
        return {key: None if isinstance(value, float) and not math.isfinite(value) else value
                for key, value in found.items()}  # fmt: skip

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "CheckResult":
        """Parse the object that `to_json` returned; unknown keys of later versions are ignored.

        Raise a ValueError if a key is missing or the severity is invalid.
        """
        known = {key: content[key] for key in cls.__slots__ if key in content}
        if not {"check", "severity", "sentence"} <= known.keys():
            raise ValueError(f"a result has check, severity and sentence, not only {', '.join(known) or 'nothing'}")
        if known["severity"] not in get_args(Severity):
            raise ValueError(f"severity {known['severity']!r}: expected one of {', '.join(get_args(Severity))}")
        return cls(**known)


def worst_severity(results: Iterable[CheckResult]) -> Severity:
    """Return the gravest severity among `results`; `ok` if there are none."""
    return max((result.severity for result in results), key=_RANK.index, default="ok")


LEAKAGE_THRESHOLD = 0.95  # of the label that a feature tells, 0 to 1: beyond it, it is as good as the label


@dataclass(frozen=True, slots=True)
class Limits:
    """The thresholds of a check, None if there are none. A value equal to a threshold passes."""

    warn: float | None = None
    error: float | None = None

    @property
    def is_off(self) -> bool:
        """Return True if there is no threshold."""
        return self.warn is None and self.error is None

    def check_maximum(self, value: float, floor: float = 0.0) -> tuple[Severity, float | None]:
        """Judge a value that should be small: return its severity and the threshold; up to `floor` is chance."""
        return self._judge(lambda limit: value > max(limit, floor))

    def check_minimum(self, value: float, floor: float | None = None) -> tuple[Severity, float | None]:
        """Judge a value that should be large: return its severity and the threshold; down to `floor` is chance."""
        return self._judge(lambda limit: value < (limit if floor is None else min(limit, floor)))

    def _judge(self, is_beyond: Callable[[float], bool]) -> tuple[Severity, float | None]:
        if self.error is not None and is_beyond(self.error):
            return "error", self.error
        if self.warn is not None and is_beyond(self.warn):
            return "warn", self.warn
        return "ok", self.error if self.warn is None else self.warn


LimitsByCheck = Mapping[str, Limits]
ByFeature = Mapping[str, LimitsByCheck]  # of single features, in place of those that hold for all
NO_LIMITS = Limits()
NO_OVERRIDES: ByFeature = MappingProxyType({})  # no feature has limits of its own


def check_shares(
    check: str, limits: LimitsByCheck, splits: Mapping[str, int], elsewhere: Mapping[str, int], words: str
) -> Iterator[CheckResult]:
    """Check the share of each split's examples that another split has, too; `words` has {} for the split's name."""
    if limits[check].is_off or len(splits) < 2:
        return
    for split, number in splits.items():
        if split != "train":
            shared = elsewhere.get(split, 0)
            severity, threshold = limits[check].check_maximum(shared / number)
            message = f"{shared:,} of {number:,} {words.format(repr(split))}"
            yield CheckResult(check, severity, message, "", split, shared / number, threshold)


def feature_limits(feature: str, limits: LimitsByCheck, overrides: ByFeature) -> LimitsByCheck:
    """Return the limits of a feature: its own, and for other checks those of all features."""
    return {**limits, **overrides.get(feature, {})}


COMPARISONS = ("drift", "skew")
# Checks of a schema's constraints, besides those that have limits
SCHEMA_CHECKS = {
    "min_examples_count": "Number of examples, and its ratio to the previous version: at least `dataset_constraints`",
    "max_examples_count": "Number of examples, and its ratio to the previous version: at most `dataset_constraints`",
    "value_count": "Number of values of a feature in each example that has it: within `value_count`",
    "min_fraction": "Share of a split's examples that have a feature: at least `presence.min_fraction`",
    "min_count": "Number of a split's examples that have a feature: at least `presence.min_count`",
    "domain": "Smallest and largest number of a feature: within `int_domain` or `float_domain`",
    "string_domain": "Share of a feature's strings that are not in its domain: at most 1 - `min_domain_mass`",
}


@dataclass(frozen=True, slots=True)
class Constraints:
    """The constraints in a schema."""

    text: str  # of the schema, as sent to workers

    @classmethod
    def from_pbtxt(cls, text: str) -> "Constraints":
        """Parse the constraints in the text of a `schema.pbtxt`; raise a ParseError if `text` is not a schema."""
        constraints = cls(text)
        constraints.schema()
        return constraints

    def schema(self) -> "schema_pb2.Schema":
        """Return the Schema proto."""
        from google.protobuf import text_format
        from tensorflow_metadata.proto.v0 import schema_pb2

        return text_format.Parse(self.text, schema_pb2.Schema())

    def limits(self) -> dict[str, LimitsByCheck]:
        """Return the thresholds of comparators, by feature and check."""
        found: dict[str, LimitsByCheck] = {}
        for feature in self.schema().feature:
            of_feature: dict[str, Limits] = {}
            for check in COMPARISONS:
                comparator = getattr(feature, f"{check}_comparator")
                if comparator.infinity_norm.HasField("threshold"):
                    limit = Limits(error=comparator.infinity_norm.threshold)
                    of_feature |= {f"label_{check}": limit, f"string_{check}": limit}
                if comparator.jensen_shannon_divergence.HasField("threshold"):
                    of_feature[f"numeric_{check}"] = Limits(error=comparator.jensen_shannon_divergence.threshold)
            if of_feature:
                found[feature.name] = of_feature
        return found
