"""Declared preprocessing: the steps of each feature and the outputs they make."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import takewhile
from typing import Any, ClassVar, Literal

from shardmill.data.features import NO_RENAMES, DType, Feature, Renames
from shardmill.errors import UserError
from shardmill.flag_values import OptionValueError
from shardmill.transforms.options.declare import expected_words

Needs = Literal["", "moments", "range", "quantiles", "vocabulary"]
INVALID_IN_VOCABULARY = (b"", b"\n", b"\r")  # an entry is a line of a text file, as in TFT


@dataclass(frozen=True, slots=True)
class ValueType:
    """The type of a feature's values between two steps."""

    dtype: DType  # of each value
    is_list: bool = False  # True if an example has a list of values
    is_optional: bool = False  # True if an example may have no value
    num_ids: int | None = 0  # number of ids from 0; None if unknown, 0 if values are no ids

    @property
    def description(self) -> str:
        """The type as text, for messages."""
        return f"lists of {self.dtype}" if self.is_list else self.dtype


class Step:
    """Base of steps: dataclasses whose fields are their parameters."""

    __slots__ = ()
    name: ClassVar[str]
    needs: ClassVar[Needs] = ""
    takes: ClassVar[Literal["", "numbers", "texts"]] = ""  # "" for both

    def output_type(self, values: ValueType) -> ValueType:
        """Return the type that the step makes of `values`; raise OptionValueError if it does not accept them."""
        if self.takes and (self.takes == "texts") != (values.dtype == "bytes"):
            raise OptionValueError(f"{self.name} takes {self.takes}, and the values are {values.description}")
        return self._change(values)

    def _change(self, values: ValueType) -> ValueType:
        """Return the type that the step makes of values of a type that it takes; by default, the same."""
        return values


class _NumberStep(Step):
    __slots__ = ()
    takes = "numbers"

    def _change(self, values: ValueType) -> ValueType:
        return replace(values, dtype="float32", num_ids=0)


def step_to_json(step: Step) -> dict[str, Any]:
    """Return a step as its name with its parameters."""
    parameters = {item.name: getattr(step, item.name) for item in fields(step)}  # type: ignore[arg-type]
    return {step.name: {name: list(value) if isinstance(value, tuple) else value for name, value in parameters.items()}}


def step_from_json(entry: Mapping[str, Any]) -> Step:
    """Return the step that `step_to_json` wrote."""
    ((name, parameters),) = entry.items()
    return STEPS[name](**{key: tuple(value) if isinstance(value, list) else value for key, value in parameters.items()})


def _check_at_least(name: str, number: int | None, least: int) -> None:
    if number is not None and number < least:
        raise OptionValueError(f"{name} is {number}; expected {least} or more")


@dataclass(frozen=True, slots=True)
class Fill(Step):
    """Replacement of missing values."""

    name: ClassVar[str] = "fill"
    value: str

    def _change(self, values: ValueType) -> ValueType:
        if values.is_list:
            raise OptionValueError("fill takes features with one value, and lists are empty where they are missing")
        self.parse_value(values.dtype)
        return replace(values, is_optional=False)

    def parse_value(self, dtype: DType) -> int | float | bytes:
        """Return the fill value as `dtype`; raise OptionValueError if it is none."""
        if dtype == "bytes":
            return self.value.encode()
        try:
            number = int(self.value) if dtype == "int64" else float(self.value)
        except ValueError:
            raise OptionValueError(f"fill: {self.value!r} is no {dtype}, as the values are") from None
        if dtype == "int64" and not -(1 << 63) <= number < 1 << 63:
            raise OptionValueError(f"fill: {self.value} is beyond int64")
        return number


@dataclass(frozen=True, slots=True)
class Lower(Step):
    """Conversion of texts to lower case, only for ASCII letters, like tf.strings.lower."""

    name: ClassVar[str] = "lower"
    takes = "texts"


@dataclass(frozen=True, slots=True)
class Tokenize(Step):
    """Conversion of a text to the list of its tokens."""

    name: ClassVar[str] = "tokenize"
    takes = "texts"
    pattern: str = ""  # RE2 expression of separators; "" for ASCII white space

    def _change(self, values: ValueType) -> ValueType:
        if values.is_list:
            raise OptionValueError(f"tokenize takes single texts, and the values are {values.description}")
        return replace(values, is_list=True)


@dataclass(frozen=True, slots=True)
class Log1p(_NumberStep):
    """The logarithm log(1 + x)."""

    name: ClassVar[str] = "log1p"


@dataclass(frozen=True, slots=True)
class ZScore(_NumberStep):
    """The z-score (x - mean) / standard deviation, like tft.scale_to_z_score."""

    name: ClassVar[str] = "z_score"
    needs: ClassVar[Needs] = "moments"


@dataclass(frozen=True, slots=True)
class MinMax(_NumberStep):
    """Scaling of the range of values to `low` … `high`, like tft.scale_by_min_max."""

    name: ClassVar[str] = "min_max"
    needs: ClassVar[Needs] = "range"
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise OptionValueError(f"min_max: [{self.low:g}, {self.high:g}]; expected the smaller number first")


@dataclass(frozen=True, slots=True)
class Buckets(Step):
    """Bucket index of a value by given boundaries, like tft.apply_buckets."""

    name: ClassVar[str] = "boundaries"
    takes = "numbers"
    boundaries: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.boundaries or any(low >= high for low, high in zip(self.boundaries, self.boundaries[1:])):
            raise OptionValueError("bucketize: expected boundaries that ascend, such as [18, 30, 65]")

    def _change(self, values: ValueType) -> ValueType:
        return replace(values, dtype="int64", num_ids=len(self.boundaries) + 1)


@dataclass(frozen=True, slots=True)
class Bucketize(Step):
    """Bucket index of a value by quantiles, like tft.bucketize: buckets have about equal counts."""

    name: ClassVar[str] = "bucketize"
    takes = "numbers"
    needs: ClassVar[Needs] = "quantiles"
    num_buckets: int

    def __post_init__(self) -> None:
        _check_at_least("num_buckets", self.num_buckets, 2)

    def _change(self, values: ValueType) -> ValueType:
        return replace(values, dtype="int64", num_ids=None)


@dataclass(frozen=True, slots=True)
class Vocabulary(Step):
    """Id of a value in order of frequency, with the parameters of tft.compute_and_apply_vocabulary."""

    name: ClassVar[str] = "vocabulary"
    needs: ClassVar[Needs] = "vocabulary"
    top_k: int | None = None
    frequency_threshold: int | None = None
    num_oov_buckets: int = 0
    default_value: int = -1

    def __post_init__(self) -> None:
        _check_at_least("top_k", self.top_k, 1)
        _check_at_least("frequency_threshold", self.frequency_threshold, 1)
        _check_at_least("num_oov_buckets", self.num_oov_buckets, 0)
        if self.num_oov_buckets and self.default_value != -1:
            raise OptionValueError("default_value has no effect with num_oov_buckets; give one of them")

    def _change(self, values: ValueType) -> ValueType:
        if values.dtype == "float32":
            raise OptionValueError(
                f"a vocabulary takes texts or int64, and the values are {values.description}; bucketize them"
            )
        return replace(values, dtype="int64", num_ids=None)


@dataclass(frozen=True, slots=True)
class Hash(Step):
    """Hash of a text, below `hash_buckets`, like tft.hash_strings."""

    name: ClassVar[str] = "hash"
    takes = "texts"
    hash_buckets: int

    def __post_init__(self) -> None:
        _check_at_least("hash_buckets", self.hash_buckets, 1)

    def _change(self, values: ValueType) -> ValueType:
        return replace(values, dtype="int64", num_ids=self.hash_buckets)


@dataclass(frozen=True, slots=True)
class OneHot(Step):
    """One-hot encoding of an id as a list of floats; all 0.0 if the value is not an id."""

    name: ClassVar[str] = "one_hot"

    def _change(self, values: ValueType) -> ValueType:
        if values.num_ids == 0:
            raise OptionValueError(
                f"one_hot takes ids, which vocabulary, bucketize and hash make, and the values are {values.description}"
            )
        if values.is_list:
            raise OptionValueError(f"one_hot takes features with one value, and the values are {values.description}")
        return ValueType("float32", is_list=True)


STEPS: Mapping[str, type[Any]] = {
    step.name: step
    for step in (Fill, Lower, Tokenize, Log1p, ZScore, MinMax, Buckets, Bucketize, Vocabulary, Hash, OneHot)
}


@dataclass(frozen=True, slots=True)
class Chain:
    """The steps that make one output from one feature."""

    feature: str  # input name of the feature
    steps: tuple[Step, ...]  # in order; empty if the feature is unchanged
    output: str = ""  # name in transformed examples; "" for the feature's own name
    location: str = ""  # file and line, for error messages

    @property
    def name(self) -> str:
        """Name of the output in the declaration."""
        return self.output or self.feature

    def output_name(self, renames: Renames) -> str:
        """Return the output's name in transformed examples."""
        return self.output or renames(self.feature)

    @property
    def effective_steps(self) -> tuple[Step, ...]:
        """The steps without any logarithm before quantiles: buckets are the same without it."""
        return tuple(
            step
            for step, following in zip(self.steps, [*self.steps[1:], None])
            if not (isinstance(step, Log1p) and isinstance(following, Bucketize))
        )

    @property
    def steps_before_analyzer(self) -> tuple[Step, ...]:
        """The steps before the analyzer, or all steps without an analyzer."""
        return tuple(takewhile(lambda step: not step.needs, self.effective_steps))

    @property
    def analyzer(self) -> Step | None:
        """The one step whose constants are computed from the data, or None."""
        return next((step for step in self.steps if step.needs), None)

    @property
    def needs(self) -> Needs:
        """The kind of constants that the analyzer needs; "" without an analyzer."""
        return self.analyzer.needs if self.analyzer is not None else ""

    def error(self, sentence: str) -> UserError:
        return UserError(f"{self.location}: feature {self.feature!r}: {sentence}")

    def output_type(self, feature: Feature) -> ValueType:
        """Return the type of the values that the steps make of `feature`; raise UserError if one does not accept it."""
        values = ValueType(feature.dtype, feature.shape != (), not feature.required, len(feature.class_names))
        for step in self.steps:
            try:
                values = step.output_type(values)
            except OptionValueError as mistake:
                raise self.error(str(mistake)) from None
        return values

    def to_json(self) -> dict[str, Any]:
        """Return the chain as in manifest.json."""
        return {"feature": self.feature, "output": self.name, "steps": [step_to_json(step) for step in self.steps]}


@dataclass(frozen=True, slots=True)
class Declaration:
    """The content of a transform.yaml. Features that it does not name are unchanged."""

    chains: tuple[Chain, ...]  # in file order
    dropped: tuple[tuple[str, str], ...] = ()  # features missing in transformed examples, each with file and line

    @property
    def analyzed_chains(self) -> tuple[Chain, ...]:
        return tuple(chain for chain in self.chains if chain.needs)

    def to_json(self) -> dict[str, Any]:
        """Return the declaration as in manifest.json, without lines of the file."""
        return {
            "outputs": [chain.to_json() for chain in self.chains],
            "dropped": [feature for feature, _ in self.dropped],
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any], where: str = "") -> "Declaration":
        """Return the declaration that `to_json` wrote to the file `where`."""
        chains = (
            Chain(entry["feature"], tuple(map(step_from_json, entry["steps"])), entry["output"], where)
            for entry in content["outputs"]
        )
        return cls(tuple(chains), tuple((feature, where) for feature in content["dropped"]))

    def with_all_features(self, features: Sequence[Feature]) -> "Declaration":
        """Return this declaration in the order of `features`, with an empty chain for each that it does not name."""
        named = {chain.feature for chain in self.chains} | {feature for feature, _ in self.dropped}
        chains: list[Chain] = []
        for feature in features:
            chains_of_feature = [chain for chain in self.chains if chain.feature == feature.name]
            chains += chains_of_feature if feature.name in named else [Chain(feature.name, ())]
        return Declaration(tuple(chains), self.dropped)

    def of_input(self, renames: Renames) -> "Declaration":
        """Return this declaration, which may have names that --rename gives, with the names of the input."""
        chains = tuple(replace(chain, feature=renames.original_name(chain.feature)) for chain in self.chains)
        return Declaration(chains, tuple((renames.original_name(name), where) for name, where in self.dropped))

    def check(self, features: Sequence[Feature], renames: Renames = NO_RENAMES) -> None:
        """Check that the declaration fits these features; an output without a name is named by `renames`.

        Raises UserError if a feature is missing, a step does not accept its type, or two outputs have the same name.
        """
        known = {feature.name: feature for feature in features}
        for name, where in [*((chain.feature, chain.location) for chain in self.chains), *self.dropped]:
            if name not in known:
                raise UserError(f"{where}: feature {name!r} is not there; {expected_words(name, map(renames, known))}")
        for chain in self.chains:
            chain.output_type(known[chain.feature])
        complete = self.with_all_features(features)
        if not complete.chains:
            raise UserError(f"{self.dropped[0][1]}: all features are dropped; expected one at least that stays")
        chain_by_output: dict[str, Chain] = {}
        # Those of the file last: they have lines
        for chain in sorted(complete.chains, key=lambda chain: bool(chain.location)):
            output = chain.output_name(renames)
            other = chain_by_output.setdefault(output, chain)
            if other is not chain:
                where = f" ({other.location})" if other.location else ", which stays as it is,"
                raise chain.error(
                    f"output {output!r} is that of feature {other.feature!r}{where} too; give another name"
                )

    def describe_outputs(self, features: Sequence[Feature]) -> list[str]:
        """Describe the outputs, one line each. The features must have been checked."""
        known = {feature.name: feature for feature in features}
        lines, kept = [], []
        for chain in self.with_all_features(features).chains:
            if not chain.steps:
                kept.append(chain.name)
            else:
                shown = " | ".join(map(_format_step, chain.steps))
                values = chain.output_type(known[chain.feature])
                missing = ", may be missing" if values.is_optional and not values.is_list else ""
                lines.append(f"{chain.name}: {chain.feature} | {shown} -> {values.description}{missing}")
        if kept:
            lines.append(f"as they are: {', '.join(kept)}")
        if self.dropped:
            lines.append(f"dropped: {', '.join(feature for feature, _ in self.dropped)}")
        return lines


def _format_step(step: Step) -> str:
    ((name, parameters),) = step_to_json(step).items()
    non_default = ", ".join(f"{key}={value}" for key, value in parameters.items() if value is not None)
    return f"{name}({non_default})" if non_default else name


def check_analyzed_splits(flag: str, analyzed: Sequence[str], splits: Collection[str]) -> None:
    """Check that the splits that `flag` analyzes exist; raise UserError if one does not."""
    for split in analyzed:
        if split not in splits:
            raise UserError(
                f"{flag}: there is no split {split!r} to compute constants from; the splits are"
                f" {', '.join(splits)}; --analyze_splits names others"
            )
