"""Options of every job: output, splits, shards, columns, reuse, manifests and checks."""

import csv
import operator
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, make_dataclass
from datetime import UTC, datetime
from fractions import Fraction
from functools import partial
from importlib.util import find_spec
from typing import Any, ClassVar

from shardmill.addons.registry import CHECKS, QUANTITIES
from shardmill.data.codecs import CODECS_BY_OPTION, PLAIN_CODEC, Codec
from shardmill.errors import UserError
from shardmill.flag_values import OptionValueError, items_of, quote_item, split_item, split_names, split_pairs
from shardmill.installed import install_hint
from shardmill.metadata import file_names
from shardmill.quality.limits import (
    LEAKAGE_THRESHOLD,
    NO_LIMITS,
    SCHEMA_CHECKS,
    ByFeature,
    CheckResult,
    Constraints,
    Limits,
)
from shardmill.transforms.options.declare import Options, check_no_repeats, expected_words, flag, name_flag, options_of

# The names of splits, and how much of the data is in each
Fractions = tuple[tuple[str, Fraction], ...]
_ROUNDING = Fraction(1, 200)  # by which the fractions may miss 1: 0.333 three times is fine
_SEEDS = 1 << 64  # what xxh3 takes
TRAINING = "train"  # the split that constants of --transform are taken of, unless others are named
# Columns of rows that a function makes of whole files: a row's identity, and what its split depends on
ROW_KEY, ROW_FILE = "\0key", "\0file"
CONTENT, FOLDER = "content", "folder"  # --group_by, of what an example holds, and of where its file is


def parse_splits(value: Any) -> Fractions:
    """Parse split names and fractions, which add up to 1 up to rounding: `train=0.8,test=0.2`, a mapping, or pairs."""
    splits: dict[str, Fraction] = {}
    expected = "name=fraction, such as train=0.8"
    for name, number in split_pairs(value, expected, is_listed=True):
        name, part = str(name).strip(), f"{name}={number}"
        try:
            fraction = Fraction(str(number))
        except (ValueError, ZeroDivisionError):
            raise OptionValueError(f"{part!r} is not {expected}") from None
        if not file_names.is_split_name(name):
            raise OptionValueError(f"{part!r} is not name=fraction with a name of letters, digits and '_'")
        if fraction <= 0:
            raise OptionValueError(f"split {name!r} has fraction {number}; expected more than 0")
        if name in splits:
            raise OptionValueError(f"split {name!r} is named twice")
        splits[name] = fraction
    total = sum(splits.values(), Fraction(0))
    if abs(total - 1) > _ROUNDING:
        raise OptionValueError(f"the fractions add up to {float(total):g}; expected 1")
    return tuple((name, fraction / total) for name, fraction in splits.items())


def check_seed(seed: int) -> str | None:
    """Return the expected range if `seed` is invalid, else None."""
    return None if 0 <= seed < _SEEDS else "expected 0 to 2^64 - 1"


@dataclass(frozen=True, kw_only=True)
class SplitOptions(Options):
    """Options for splits and order."""

    title: ClassVar[str] = "splits and order"

    # names and fractions; None: splits of folders or rows, or train
    splits: Fractions | None = flag(
        None,
        "Splits and their fractions of the examples, for example train=0.9,test=0.1",
        parse=parse_splits,
        default_words="all examples in train",
        to_json=lambda splits: {name: str(fraction) for name, fraction in splits},
    )
    group_by: str | None = name_flag(
        None,
        "Column whose equal values stay in one split; or content, for equal examples; folder, for files of a "
        "folder; '(?P<group>.)_.*', for part of a name",
    )
    stratify_by: str | None = name_flag(
        None,
        "Column, or label, each value of which is divided among the splits by their exact fractions; with --group_by, "
        "as evenly as whole groups allow",
    )
    seed: int = flag(0, "Seed of the order of examples", check=check_seed)
    split_seed: int = flag(0, "Seed of the assignment of examples to splits", check=check_seed)
    no_shuffle: bool = flag(False, "Keep the order of the input: files sorted by name, records in file order")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("group_by", "stratify_by"):
            if getattr(self, name) is not None and self.splits is None:
                raise UserError(f"--{name} {getattr(self, name)} needs --splits")
        if self.seed and self.no_shuffle:
            raise UserError(
                f"--seed {self.seed} contradicts --no_shuffle: there is no order to draw; --split_seed is for the"
                " splits"
            )


DEFAULT_SHARD_SIZE = 128 << 20  # bytes: the 100 to 200 MB that TensorFlow's and TFDS's guides recommend
MAX_SHARDS = 99_999  # the five digits of `-SSSSS-of-NNNNN`
# Bytes, by the unit in lower case
_UNITS = {
    "": 1,
    "b": 1,
    **{f"{u}{s}": (1024 if "i" in s else 1000) ** p for p, u in enumerate("kmgt", 1) for s in ("", "b", "ib")},
}

NumShards = int | tuple[tuple[str, int], ...]


def parse_size(value: Any) -> int:
    """Parse a size in bytes from `128MiB`, `1GB`, `500k`, `4096` or an int."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", str(value).strip().lower())
    if match is None or match[2] not in _UNITS:
        raise OptionValueError(f"{value!r} is not a size; expected a number and a unit, such as 128MiB or 1GB")
    return int(Fraction(match[1]) * _UNITS[match[2]])


def parse_num_shards(value: Any) -> NumShards:
    """Parse one number for every split (`8`), or one for each (`train=16,test=2`, a mapping, or pairs)."""
    try:
        if isinstance(value, int) or (isinstance(value, str) and "=" not in value):
            return int(value)
        pairs = split_pairs(value, "split=number", is_listed=True)
        counts = tuple((str(name).strip(), int(count)) for name, count in pairs)
    except (TypeError, ValueError):
        raise OptionValueError(f"{value!r} is neither a number nor split=number,…") from None
    if len(dict(counts)) < len(counts):
        raise OptionValueError(f"{value!r} names a split twice")
    return counts


def _check_num_shards(value: NumShards) -> str | None:
    counts = [value] if isinstance(value, int) else [count for _, count in value]
    return None if all(1 <= count <= MAX_SHARDS for count in counts) else f"expected 1 to {MAX_SHARDS:,} for a split"


@dataclass(frozen=True, kw_only=True)
class ShardOptions(Options):
    """Options for shards."""

    title: ClassVar[str] = "shards"

    # approximate bytes; None: num_shards or DEFAULT_SHARD_SIZE
    shard_size: int | None = flag(
        None,
        "Approximate size of a shard",
        parse=parse_size,
        check=lambda size: None if size >= 1 else "expected at least 1 byte",
        default_words="128MiB",
    )
    # of each split not in split_shards, which by-split values set
    num_shards: NumShards | None = flag(
        None,
        "Number of shards of each split, for example 16, or train=16,test=2",
        parse=parse_num_shards,
        check=_check_num_shards,
    )
    # numbers of shards of single splits
    split_shards: tuple[tuple[str, int], ...] = flag(
        (), name="num_shards", parse=parse_num_shards, check=_check_num_shards, hidden=True, to_json=dict
    )
    balance: str = flag(
        "examples",
        "Quantity that is equal in all shards"
        + "".join(f"; {name} is for {of}" for name, (_, of, _) in QUANTITIES.items()),
        choices=("examples", "bytes", *QUANTITIES),
    )
    file_format: str = flag(
        PLAIN_CODEC.file_format,
        "File format of the shards; array_record is for tfds.data_source and Grain",
        choices=tuple(dict.fromkeys(file_format for file_format, _ in CODECS_BY_OPTION)),
        is_always_recorded=False,
    )
    compression: str = flag(
        PLAIN_CODEC.option,
        "Compression of TFRecord shards; TFDS cannot read gzip",
        choices=tuple(dict.fromkeys(compression for _, compression in CODECS_BY_OPTION)),
    )

    file_template: str = flag(
        file_names.DEFAULT_TEMPLATE,
        "Template of shard file names, with TFDS's placeholders, for example {SPLIT}-{SHARD_X_OF_Y}.{FILEFORMAT}",
        check=file_names.template_problem,
        is_always_recorded=False,
    )
    index: bool = flag(
        False,
        "Write the position of each record to index/, for random access; NVIDIA DALI reads these files, too",
        is_always_recorded=False,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.file_format, self.compression) not in CODECS_BY_OPTION:
            raise UserError(
                f"--compression {self.compression} contradicts --file_format {self.file_format}, in which each record"
                " is compressed already; drop one of them"
            )
        if self.index and self.codec.has_index:
            raise UserError(
                f"--index contradicts --file_format {self.file_format}, whose shards have an index at their end; drop"
                " one of them"
            )
        if (library := self.codec.library) and find_spec(library) is None:
            raise UserError(f"--file_format {self.file_format} needs the library {library}; {install_hint(library)}")
        if self.index and not self.codec.keeps_offsets:
            raise UserError(
                f"--index contradicts --compression {self.compression}: one record of such a shard cannot be read"
                f" alone; --compression {PLAIN_CODEC.option} writes shards that can have an index"
            )
        if isinstance(self.num_shards, tuple):
            object.__setattr__(self, "split_shards", self.num_shards)
            object.__setattr__(self, "num_shards", None)
        if self.num_shards is not None and self.shard_size is not None:
            raise UserError("give --num_shards or --shard_size, not both")

    @property
    def codec(self) -> Codec:
        """The file format of the shards."""
        return CODECS_BY_OPTION[self.file_format, self.compression]

    def to_json(self) -> dict[str, Any]:
        size = self.shard_size or (None if self.num_shards else DEFAULT_SHARD_SIZE)
        return super().to_json() | {"shard_size": size}


def parse_path(value: Any) -> str:
    """Check that a value can be a path or a URL, and return it."""
    if not isinstance(value, str) or not value:
        raise OptionValueError(f"{value!r} is no path and no URL")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise OptionValueError(f"{value}: the path is not UTF-8; rename the folder, or give a link to it") from None
    return value


DEFAULT_REJECT_FRACTION = 0.01
_MIN_REJECTS = 3  # that the default allows if most records are good, so that one bad file of 60 stops no job


def allow_rejects(rejected: int, records: int, fraction: float) -> bool:
    """Return True if a job of `records` records publishes without the `rejected` ones, by `--max_reject_fraction`."""
    is_allowed_by_default = rejected <= _MIN_REJECTS and 2 * rejected < records
    return rejected / records <= fraction or (fraction == DEFAULT_REJECT_FRACTION and is_allowed_by_default)


def reject_flag(rejected: int, records: int, fraction: float = DEFAULT_REJECT_FRACTION) -> str:
    """Return a space and the flag that lets a job publish without `rejected` records; "" if `fraction` allows that."""
    if not rejected or allow_rejects(rejected, records, fraction):
        return ""
    scale = 10 ** max(2, len(str(records // rejected)))
    return f" --max_reject_fraction {-(-rejected * scale // records) / scale:g}"


@dataclass(frozen=True, kw_only=True)
class OutputOptions(Options):
    """The folder `<output>/<name>/<version>`, and the share of rejects above which the job fails."""

    title: ClassVar[str] = "output"

    output: str = flag(help="Folder in which all data sets are published", parse=parse_path, affects_output=False)
    name: str = flag(help="Name of the data set", affects_output=False)
    version: str = flag("1.0.0", "Version of the data set", affects_output=False)
    overwrite: bool = flag(False, "Replace the version if it is already published", affects_output=False)
    set_latest: bool = flag(
        False, "Point LATEST at this version even if it now points at a newer one", affects_output=False
    )
    allow_future: bool = flag(
        False, "Build although the version is a date more than two days ahead of the clock", affects_output=False
    )
    max_reject_fraction: float = flag(
        DEFAULT_REJECT_FRACTION,
        "Fraction of records that may be rejected; more fail the job. The default also allows 3 records, if "
        "these are less than half",
        check=lambda part: None if 0 <= part <= 1 else "expected 0 to 1",
        group="run",
    )

    on_damaged_file: str = flag(
        "fail",
        "Action for a damaged file with an unknown number of unreadable records: fail the job, or reject them",
        choices=("fail", "reject"),
        group="run",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not file_names.is_dataset_name(self.name):
            raise UserError(f"--name {self.name!r}: expected a letter, then letters, digits and '_'")
        if not file_names.is_version(self.version):
            raise UserError(f"--version {self.version!r}: expected three numbers, such as 1.0.0")
        if any(part.startswith("0") and part != "0" for part in self.version.split(".")):
            plain = ".".join(str(int(part)) for part in self.version.split("."))
            raise UserError(f"--version {self.version!r}: TFDS reads no leading zeros; give {plain}")

    @property
    def parent(self) -> str:
        """The folder of all versions."""
        return f"{self.output.rstrip('/')}/{self.name}"

    @property
    def directory(self) -> str:
        """The version directory."""
        return f"{self.parent}/{self.version}"


NO, RECORD, LATEST = "no", "record", "LATEST"


def parse_reuse(value: Any) -> str:
    """Check the value of --reuse: a version, or one of three words."""
    if isinstance(value, str) and (value in (NO, RECORD, LATEST) or file_names.is_version(value)):
        return value
    raise OptionValueError(f"{value!r}: expected {NO}, {RECORD}, {LATEST} or a version such as 1.0.0")


@dataclass(frozen=True, kw_only=True)
class ReuseOptions(Options):
    """Option for reusing records of an older version; the output bytes are the same with or without it."""

    title: ClassVar[str] = "run"

    reuse: str = flag(
        NO,
        "Version, or LATEST, from which records of unchanged files are copied; record reads all files and "
        "stores what the next build needs",
        parse=parse_reuse,
        metavar="LATEST|VERSION|record|no",
        affects_output=False,
    )


_SPLIT = re.compile(r"(\w+)=(.+)")
_COMMA = re.compile(r",(?![^{}]*\})")  # that is in no choice of a glob


def named_files(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield (name, path) for each of `train=a.json` items, pairs or a mapping; the name of a lone path is ""."""
    for item in items_of(value):
        match = _SPLIT.fullmatch(item) if isinstance(item, str) else None
        name, path = match.groups() if match else ("", item) if isinstance(item, str) else item
        yield str(name), path


def parse_manifests(value: Any) -> tuple[tuple[str, str], ...]:
    """Parse `train=a.csv,b.csv` items, pairs or a mapping into (split, file or glob) pairs; the split may be ""."""
    pairs: list[tuple[str, str]] = []
    for item in items_of(value):
        is_there = isinstance(item, str) and os.path.lexists(item)
        ((split, paths),) = [("", item)] if is_there else named_files([item])
        if isinstance(paths, str):  # that is there, whatever characters are in it, or several
            paths = [paths] if os.path.lexists(paths) else _COMMA.split(paths)
        pairs += [(split, parse_path(path)) for path in paths]
    if len({bool(split) for split, _ in pairs}) > 1:
        raise OptionValueError("some files have a split and others not; give each one, as in train=a.csv")
    check_no_repeats([path for _, path in pairs], "the file {} is there twice")
    return tuple(pairs)


_WORDS = ("off", "warn", "error")
FEATURE_CHECKS = (
    *("presence_drop", "classes_gone", "classes_new", "classes_shrunk", "classes_moved", "min_examples_per_class"),
    *("label_leakage", "label_drift", "string_drift", "numeric_drift", "label_skew", "string_skew", "numeric_skew"),
)  # checks whose thresholds a feature may have of its own
_EXPECTED = "expected off, warn, error, a number, or {warn: number, error: number}"


def parse_limits(value: Any, word_threshold: float = 0.0) -> Limits:
    """Parse Limits, a mapping, a number, a word, or a text such as `warn=0.1,error=0.3`.

    `word_threshold` is the threshold of the words `warn` and `error`; for upper bounds any change exceeds 0.
    """
    if isinstance(value, Limits):
        return value
    if value is False:  # YAML's `off`
        return NO_LIMITS
    if isinstance(value, str) and value in _WORDS:
        return NO_LIMITS if value == "off" else Limits(**{value: word_threshold})
    if isinstance(value, str) and "=" in value:
        value = {name.strip(): text for name, text in split_pairs(value, _EXPECTED, is_listed=True)}
    if not isinstance(value, Mapping):
        return Limits(error=_parse_threshold(value, value))
    if not value or value.keys() - {"warn", "error"}:
        raise OptionValueError(f"{value!r}: {_EXPECTED}")
    return Limits(**{key: None if number is None else _parse_threshold(number, value) for key, number in value.items()})


def _parse_threshold(value: Any, shown: Any) -> float:
    try:
        number = None if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = None
    if number is None or not 0 <= number < float("inf"):
        raise OptionValueError(f"{shown!r}: {_EXPECTED}; a number is finite and not negative")
    return number


def parse_feature_limits(value: Any) -> ByFeature:
    """Parse the thresholds of single features: by name, `off` or a mapping of checks that apply to one feature."""
    if not isinstance(value, Mapping):
        raise OptionValueError(f"{value!r}: expected features, each with off or its checks, as in {{id: off}}")
    return {str(name): _parse_column(str(name), checks) for name, checks in value.items()}


def _parse_column(name: str, checks: Any) -> dict[str, Limits]:
    if checks == "off" or checks is False:
        return dict.fromkeys(FEATURE_CHECKS, NO_LIMITS)
    if not isinstance(checks, Mapping):
        raise OptionValueError(f"{name}: {checks!r}: expected off, or checks with their thresholds")
    known = {option.field: option for option in options_of(CheckOptions) if option.field in FEATURE_CHECKS}
    found = {}
    for check, limits in checks.items():
        if check not in known:
            hint = expected_words(str(check), known)
            raise OptionValueError(f"{name}: {check!r} is no check of a single feature; {hint}")
        try:
            found[check] = known[check].parse(limits)
        except UserError as error:
            raise OptionValueError(f"{name}: {error}") from None
    return found


def parse_constraints(value: Any) -> Constraints:
    """Read the constraints of the schema.pbtxt at a path; return Constraints unchanged."""
    if isinstance(value, Constraints):
        return value
    from google.protobuf.text_format import ParseError

    from shardmill.transforms.stores import storage

    try:
        return Constraints.from_pbtxt(storage.read_bytes(parse_path(value)).decode())
    except OSError as error:
        storage.raise_if_store_failed(error, str(value))
        raise OptionValueError(f"{value}: {error.strerror or error}") from None
    except (ParseError, UnicodeDecodeError) as error:
        raise OptionValueError(f"{value} is not a tensorflow-metadata Schema in text form: {error}") from None


LOWER_BOUND, UPPER_BOUND = "lower bound", "upper bound"  # groups of checks


def _ceiling(
    help: str,
    warn: float | None = None,
    error: float | None = None,
    is_late: Any = operator.gt,
    parse: Callable[[Any], Limits] = parse_limits,
    group: str = UPPER_BOUND,
) -> Any:
    """Declare a check's thresholds to warn and to fail; `is_late(warn, error)` is true if their order is wrong."""

    def problem(limits: Limits) -> str | None:
        has_both = limits.warn is not None and limits.error is not None
        return "expected to warn before it is an error" if has_both and is_late(limits.warn, limits.error) else None

    return flag(Limits(warn, error), help, parse=parse, check=problem, group=group, affects_output=False)


def _floor(help: str, warn: float | None = None, error: float | None = None) -> Any:
    # No value is below 0, so the words take the threshold that warns by default; 1 without one
    parse = partial(parse_limits, word_threshold=1.0 if warn is None else warn)
    return _ceiling(help, warn, error, operator.lt, parse, LOWER_BOUND)


def _baseline_problem(name: str) -> str | None:
    fits = file_names.is_version(name) or re.fullmatch(r"[A-Za-z_][\w.-]*", name, re.ASCII)
    return None if fits else "expected a version, such as 1.0.0, LATEST, or a tag"


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The decision to publish a version although checks fail."""

    checks: tuple[str, ...]  # that may fail; others still stop the build
    by: str  # user@host, or a name
    reason: str

    def to_json(self, results: Iterable[CheckResult], now: datetime) -> dict[str, Any]:
        """Return the entry of a build record, at the time `now`, with the checks in `results` that failed."""
        failed = sorted({result.check for result in results if result.severity == "error"})
        at = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {"checks": failed, "by": self.by, "at": at, "reason": self.reason}


def _with_checks_of_add_ons(cls: type[Options]) -> type[Options]:
    found = [(name, Limits, _ceiling(help, warn)) for name, (help, warn) in CHECKS.items()]
    names = {"__module__": __name__, "__doc__": cls.__doc__}
    return make_dataclass(cls.__name__, found, bases=(cls,), namespace=names, frozen=True, kw_only=True)


@_with_checks_of_add_ons
@dataclass(frozen=True, kw_only=True)
class CheckOptions(Options):
    """Options of the checks before publishing, each with its thresholds; see shardmill.quality.checks."""

    title: ClassVar[str] = "checks"

    examples_under: Limits = _floor(
        "Number of examples relative to the previous version, in total and in each split", 0.9, 0.5
    )
    examples_over: Limits = _ceiling(
        "Number of examples relative to the previous version, in total and in each split", 2.0
    )
    columns_gone: Limits = _ceiling("Number of features of the previous version that are missing", None, 0.0)
    columns_new: Limits = _ceiling("Number of features that the previous version did not have", 0.0)
    types_changed: Limits = _ceiling("Number of features whose type, kind or shape changed", None, 0.0)
    presence_drop: Limits = _ceiling("Decrease of the share of examples that have a feature", 0.05, 0.3)
    classes_gone: Limits = _ceiling("Number of classes of a label that had examples and now have none", None, 0.0)
    classes_new: Limits = _ceiling("Number of classes of a label that have examples and had none", 0.0)
    classes_shrunk: Limits = _floor(
        "Number of examples of a class that still has any, relative to the previous version", 0.5
    )
    classes_moved: Limits = _ceiling("Number of classes of a label whose id changed", 0.0)
    min_examples_per_class: Limits = _floor("Smallest number of examples of any class")
    label_drift: Limits = _ceiling(
        "L-infinity distance between a label's classes and those of the previous version", 0.1, 0.3
    )
    string_drift: Limits = _ceiling(
        "L-infinity distance between the values of a string feature and those of the previous version", 0.1, 0.3
    )
    numeric_drift: Limits = _ceiling(
        "Jensen-Shannon divergence, in bits, between numbers and those of the previous version", 0.1, 0.3
    )
    label_skew: Limits = _ceiling("L-infinity distance between a label's classes in train and in another split", 0.2)
    string_skew: Limits = _ceiling("L-infinity distance between strings in train and in another split", 0.2)
    numeric_skew: Limits = _ceiling(
        "Jensen-Shannon divergence, in bits, between numbers in train and in another split", 0.2
    )
    shared_contents: Limits = _ceiling(
        "Share of the examples of a split other than train whose content is also in another split", 0.0
    )
    label_leakage: Limits = _ceiling(
        "Reduction of errors in guessing the label if one feature is known, 0 to 1 (Goodman and Kruskal's "
        "lambda); for tables, manifests and records",
        LEAKAGE_THRESHOLD,
    )
    conflicting_labels: Limits = _ceiling(
        "Share of examples with the same content as an example of another class; for files and for images in columns",
        0.0,
    )
    rejects_over: Limits = _ceiling("Share of the input's records that were rejected", 0.005, 0.05)
    shards_under: Limits = _floor("Size of the smallest shard of a split, as a share of the mean size", 0.5)
    schema: Constraints | None = flag(
        None,
        "File schema.pbtxt whose comparators, presence, domains and constraints are checked, too",
        parse=parse_constraints,
        affects_output=False,
    )
    columns: ByFeature | None = flag(
        None,
        "Thresholds of single features, for example {id: off, amount: {numeric_drift: {error: 0.5}}}",
        parse=parse_feature_limits,
        affects_output=False,
    )
    baseline: str = flag(
        "LATEST", "Version, tag or LATEST to compare with", check=_baseline_problem, affects_output=False
    )
    keep_failed: float = flag(
        3.0,
        "Number of days for which shards that failed the checks are kept",
        check=lambda days: None if 0 <= days <= 3650 else "expected 0 to 3,650 days",
        affects_output=False,
    )

    accepted: Acceptance | None = None  # of one build; not an option of a recipe

    @property
    def limits(self) -> dict[str, Limits]:
        """The thresholds by check."""
        found = ((option.field, getattr(self, option.field)) for option in options_of(type(self)))
        return {name: value for name, value in found if isinstance(value, Limits)}


def suggest_accepting(failed_checks: Iterable[str]) -> str:
    """Return the command that builds once more and passes over these checks; "" if one cannot be passed over."""
    names = dict.fromkeys(failed_checks)
    known = (*CheckOptions().limits, *SCHEMA_CHECKS)
    return f"shardmill rebuild RECIPE --accept {','.join(names)}" if all(name in known for name in names) else ""


def parse_check_names(value: Any) -> tuple[str, ...]:
    """Parse names of checks that can fail, from text such as `classes_gone,label_drift` or a sequence."""
    names = tuple(name.strip() for name in value.split(",")) if isinstance(value, str) else tuple(value)
    known = (*CheckOptions().limits, *SCHEMA_CHECKS)
    if unknown := [name for name in names if name not in known]:
        raise OptionValueError(f"there is no check {unknown[0]!r}; the checks are {', '.join(known)}")
    return names


def parse_names(value: Any) -> tuple[str, ...]:
    """Parse column names from one CSV line (`a,b,"c,d"`) or a list."""
    names = split_names(value) if isinstance(value, str) else tuple(value)
    if len(set(names)) < len(names):
        raise OptionValueError(f"{value!r} names a column twice")
    return names


def parse_missing(value: Any) -> tuple[str, ...]:
    """Parse the spellings of a missing value from `NA,null,-` or a list. An empty field is always missing."""
    spellings = next(csv.reader([value]), ()) if isinstance(value, str) else value
    return tuple(dict.fromkeys(["", *spellings]))


def parse_fill(value: Any) -> tuple[tuple[str, str], ...]:
    """Parse `age=-1` items, pairs or a mapping into (column, value) pairs."""
    pairs = split_pairs(value, "column=value, such as age=-1")
    check_no_repeats([column for column, _ in pairs], "{}=… is given twice")
    return tuple((column, str(text)) for column, text in pairs)


def parse_delimiter(value: Any) -> str:
    r"""Parse a delimiter: one ASCII character that ends no line, or `\t` or `tab` for a tab."""
    character = {"\\t": "\t", "tab": "\t"}.get(value, value)
    if not isinstance(character, str) or len(character) != 1 or not character.isascii() or character in "\r\n":
        raise OptionValueError(f"{value!r} is not one ASCII character, such as ';' or tab")
    return character


def parse_separator(value: Any) -> str:
    r"""Parse the separator of columns: a delimiter, several characters, one such as `¦`, or `\s+` for white space."""
    if isinstance(value, str) and value not in ("tab", r"\t") and len(value.encode()) > 1:
        is_plain = value.isprintable() and not any(char.isalnum() or char in '\\"' for char in value)
        if is_plain or value == r"\s+":
            return value
        raise OptionValueError(rf"{value!r}: expected a character, several that are no letters or digits, or \s+")
    return parse_delimiter(value)


def parse_quote(value: Any) -> str:
    """Parse a quote character: one ASCII character, or "" to turn quoting off."""
    return parse_delimiter(value) if value else ""


@dataclass(frozen=True, slots=True)
class Stack:
    """A feature that is made of several columns of numbers."""

    name: str
    pattern: str  # of the columns' names, such as pixel*
    dtype: str = ""  # int64, float32 or uint8; "" for the type of the numbers
    shape: tuple[int, ...] = ()  # () for a list of all

    def __str__(self) -> str:
        shape = ",".join(map(str, self.shape))
        pattern = quote_item(self.pattern) if set(':"') & set(self.pattern) else self.pattern
        return f"{quote_item(self.name)}={':'.join(filter(None, (pattern, self.dtype, shape)))}"


_STACK = re.compile(r'("(?:[^"]|"")*"|.+?)(?::(int64|float32|uint8))?(?::([1-9]\d*(?:,[1-9]\d*)*))?')


def parse_stacks(value: Any) -> tuple[Stack, ...]:
    """Parse `image=pixel*`, `image=pixel*:uint8` or `image=pixel*:uint8:28,28` items, or a mapping."""
    stacks = []
    expected = "NAME=COLUMNS, such as image=pixel* or image=pixel*:uint8:28,28"
    for item in items_of(value):
        if isinstance(item, Stack):
            stacks.append(item)
            continue
        ((name, text),) = split_pairs((item,), expected)
        if (found := _STACK.fullmatch(text)) is None:
            raise OptionValueError(f"{item!r} is not {expected}")
        sizes = tuple(int(size) for size in (found[3] or "").split(",") if size)
        stacks.append(
            Stack(name, split_item(found[1], ":")[0] if found[1][0] == '"' else found[1], found[2] or "", sizes)
        )
    check_no_repeats([stack.name for stack in stacks], "{}=… is given twice")
    return tuple(stacks)


def parse_words(value: Any, words: Collection[str], noun: str, example: str) -> tuple[tuple[str, str], ...]:
    """Parse `zip=bytes,n=int64` items, pairs or a mapping into (column, word) pairs; the words are known."""
    expected = f"column={noun}, such as {example}; {noun}s are {', '.join(words)}"
    pairs = split_pairs(value, expected, is_listed=True, is_word=True)
    for column, word in pairs:
        if word not in words:
            raise OptionValueError(f"{quote_item(column)}={word} is not {expected}")
    check_no_repeats([column for column, _ in pairs], "{}=… is given twice")
    return tuple(pairs)


parse_types = partial(parse_words, words=("int64", "float32", "bytes", "bool"), noun="type", example="zip=bytes")
