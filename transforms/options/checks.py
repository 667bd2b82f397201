"""What a version must not differ in from the one before it, or it is not published: thresholds, by check.

A threshold is written as `{warn: 0.1, error: 0.3}`; a number alone is that of the error, a word (`error`, `warn`) says
what becomes of it if there is any at all, and `off` checks nothing. Single features have their own below `columns`:
`{id: off, amount: {numeric_drift: {error: 0.5}}}`.
"""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from shardmill.checks.asked import Constraints
from shardmill.checks.limits import LOOKS_LIKE_LABEL, OFF, ByFeature, Limits
from shardmill.errors import UserError
from shardmill.metadata import naming
from shardmill.transforms.options.declare import Options, ValueMistake, flag, options_of
from shardmill.transforms.options.output import parse_path

_WORDS = {"off": OFF, "warn": Limits(warn=0.0), "error": Limits(error=0.0)}  # at 0, anything at all is told
OF_ONE_FEATURE = (
    *("presence_drop", "classes_gone", "classes_new", "classes_moved", "min_examples_per_class"),
    *("label_leakage", "label_drift", "string_drift", "numeric_drift", "label_skew", "string_skew", "numeric_skew"),
)  # checks whose thresholds a feature may have of its own
_EXPECTED = "expected off, warn, error, a number, or {warn: number, error: number}"


def parse_limits(value: Any) -> Limits:
    """Limits from themselves, a mapping, a number, a word, or the text `warn=0.1,error=0.3`.

    Raises:
      ValueMistake: it is none of these.
    """
    if isinstance(value, Limits):
        return value
    if value is False:  # YAML's `off`
        return OFF
    if isinstance(value, str) and value in _WORDS:
        return _WORDS[value]
    if isinstance(value, str) and "=" in value:
        pairs = [part.partition("=") for part in value.split(",")]
        value = {key.strip(): text.strip() for key, _, text in pairs}
    if not isinstance(value, Mapping):
        return Limits(error=_number(value, value))
    if not value or value.keys() - {"warn", "error"}:
        raise ValueMistake(f"{value!r}: {_EXPECTED}")
    return Limits(**{key: None if number is None else _number(number, value) for key, number in value.items()})


def _number(value: Any, whole: Any) -> float:
    try:
        number = None if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = None
    if number is None or not 0 <= number < float("inf"):
        raise ValueMistake(f"{whole!r}: {_EXPECTED}; a number is finite and not negative")
    return number


def _why_not_rising(limits: Limits) -> str | None:
    """What is wrong with a ceiling, of which more is worse."""
    if limits.warn is not None and limits.error is not None and limits.warn > limits.error:
        return "expected to warn before it is an error"
    return None


def _why_not_falling(limits: Limits) -> str | None:
    """What is wrong with a floor, of which less is worse."""
    if limits.warn is not None and limits.error is not None and limits.warn < limits.error:
        return "expected to warn before it is an error"
    return None


def parse_columns(value: Any) -> ByFeature:
    """The thresholds of single features: by name `off`, or a mapping of the checks that are about one feature.

    Raises:
      ValueMistake: it is something else.
    """
    if not isinstance(value, Mapping):
        raise ValueMistake(f"{value!r}: expected features, each with off or its checks, as in {{id: off}}")
    return {str(name): _of_column(str(name), told) for name, told in value.items()}


def _of_column(name: str, told: Any) -> dict[str, Limits]:
    if told == "off" or told is False:
        return dict.fromkeys(OF_ONE_FEATURE, OFF)
    if not isinstance(told, Mapping):
        raise ValueMistake(f"{name}: {told!r}: expected off, or checks with their thresholds")
    known = {option.field: option for option in options_of(CheckOptions) if option.field in OF_ONE_FEATURE}
    found = {}
    for check, limits in told.items():
        if check not in known:
            near = difflib.get_close_matches(str(check), known, 1)
            hint = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(known)}"
            raise ValueMistake(f"{name}: {check!r} is no check of a single feature; {hint}")
        try:
            found[check] = known[check].parse(limits)
        except UserError as error:
            raise ValueMistake(f"{name}: {error}") from None
    return found


def parse_constraints(value: Any) -> Constraints:
    """What the schema.pbtxt at a path asks for; constraints that are given themselves stay as they are.

    Raises:
      ValueMistake: it cannot be read, or is no schema.
    """
    if isinstance(value, Constraints):
        return value
    from google.protobuf.text_format import ParseError

    from shardmill.transforms.stores import storage

    try:
        return Constraints.from_pbtxt(storage.read_bytes(parse_path(value)).decode())
    except OSError as error:
        raise ValueMistake(f"{value}: {error.strerror or error}") from None
    except (ParseError, UnicodeDecodeError) as error:
        raise ValueMistake(f"{value} is not a tensorflow-metadata Schema in text form: {error}") from None


def _ceiling(help: str, warn: float | None = None, error: float | None = None) -> Any:
    return flag(Limits(warn, error), help, parse=parse_limits, check=_why_not_rising, shapes=False)


def _floor(help: str, warn: float | None = None, error: float | None = None) -> Any:
    return flag(Limits(warn, error), help, parse=parse_limits, check=_why_not_falling, shapes=False)


def _why_no_baseline(name: str) -> str | None:
    """What is wrong with the name of what is compared with."""
    fits = naming.is_version(name) or re.fullmatch(r"[A-Za-z_][\w.-]*", name, re.ASCII)
    return None if fits else "expected a version, such as 1.0.0, LATEST, or a tag"


@dataclass(frozen=True, kw_only=True)
class CheckOptions(Options):
    """Checks before publishing, each with its thresholds; see shardmill.checks."""

    title: ClassVar[str] = "checks"

    examples_under: Limits = _floor("times as many examples as before, in all and in a split", 0.9, 0.5)
    examples_over: Limits = _ceiling("times as many examples as before, in all and in a split", 2.0)
    columns_gone: Limits = _ceiling("features that the version before had", None, 0.0)
    columns_new: Limits = _ceiling("features that the version before had not", 0.0)
    types_changed: Limits = _ceiling("features of another type, kind or shape than before", None, 0.0)
    presence_drop: Limits = _ceiling("how much smaller the share of examples is that have a feature", 0.05, 0.3)
    classes_gone: Limits = _ceiling("classes that had examples, and have none", None, 0.0)
    classes_new: Limits = _ceiling("classes that have examples, and had none", 0.0)
    classes_moved: Limits = _ceiling("classes that have another id than before", 0.0)
    min_examples_per_class: Limits = _floor("examples of any class")
    label_drift: Limits = _ceiling("L-infinity distance of a label's classes from those before", 0.1, 0.3)
    string_drift: Limits = _ceiling("L-infinity distance of a feature of strings from that before", 0.1, 0.3)
    numeric_drift: Limits = _ceiling("Jensen-Shannon divergence, in bits, of numbers from those before", 0.1, 0.3)
    label_skew: Limits = _ceiling("L-infinity distance of a label's classes in train from another split's", 0.2)
    string_skew: Limits = _ceiling("L-infinity distance of strings in train from another split's", 0.2)
    numeric_skew: Limits = _ceiling("Jensen-Shannon divergence, in bits, of numbers in train from another split's", 0.2)
    shared_contents: Limits = _ceiling("share of a split's examples, not of train's, whose content is in another", 0.0)
    label_leakage: Limits = _ceiling("how well one feature tells the label, 0 to 1", LOOKS_LIKE_LABEL)
    conflicting_labels: Limits = _ceiling("share of examples whose content another one of another class has", 0.0)
    similar_contents: Limits = _ceiling(
        "share of a split's pictures, not of train's, that look like one in another, by --near_duplicates", 0.01
    )
    rejects_over: Limits = _ceiling("share of the input's records that were rejected", 0.005, 0.05)
    shards_under: Limits = _floor("the smallest shard of a split, as a share of the mean", 0.5)
    schema: Constraints | None = flag(
        None,
        "a schema.pbtxt whose comparators, presence, domains and constraints hold too",
        parse=parse_constraints,
        shapes=False,
    )
    columns: ByFeature | None = flag(
        None,
        "thresholds of single features, such as {id: off, amount: {numeric_drift: {error: 0.5}}}",
        parse=parse_columns,
        shapes=False,
    )
    baseline: str = flag(
        "LATEST", "what is compared with: a version, LATEST, or a tag", check=_why_no_baseline, shapes=False
    )
    keep_failed: float = flag(
        3.0,
        "days for which shards that failed the checks are kept",
        check=lambda days: None if 0 <= days <= 3650 else "expected 0 to 3,650 days",
        shapes=False,
    )

    @property
    def limits(self) -> dict[str, Limits]:
        """The thresholds by check."""
        found = ((option.field, getattr(self, option.field)) for option in options_of(type(self)))
        return {name: value for name, value in found if isinstance(value, Limits)}
