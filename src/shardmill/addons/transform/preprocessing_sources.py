"""Sources of declared preprocessing: transform.yaml, or the graph of an earlier version."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from shardmill.addons.transform import preprocessing_declaration as steps
from shardmill.addons.transform.analyzers import COUNT_SCHEMA, Constants
from shardmill.addons.transform.preprocessing_declaration import Chain, Declaration, Step
from shardmill.errors import UserError
from shardmill.flag_values import OptionValueError
from shardmill.metadata import file_names
from shardmill.metadata.tfds_metadata import TransformedOutput, TransformFile
from shardmill.pipelines.config.yaml_nodes import Document, Node, read_documents
from shardmill.reading.dataset import open_dataset
from shardmill.transforms.options.declare import expected_words
from shardmill.transforms.stores import storage

_TRANSFORM_DOCUMENT = Document("a transform", "features and their transforms, such as `age: z_score`")
_OUTPUT, _DROP = "output", "drop"


def parse_transform(data: bytes, file: str) -> Declaration:
    """Return the declaration in `data`, the content of `file`; raise UserError, which names the line of a mistake."""
    documents = read_documents(data, file, _TRANSFORM_DOCUMENT)
    if len(documents) > 1:
        raise documents[1].error("another document begins; expected one")
    chains: list[Chain] = []
    dropped: list[tuple[str, str]] = []
    for feature, node in documents[0].mapping().items():
        if node.value == _DROP:
            dropped.append((feature, node.location))
        else:
            chains += _parse_chains(feature, node)
    if not chains and not dropped:
        raise documents[0].error("names no feature; expected features and their transforms")
    return Declaration(tuple(chains), tuple(dropped))


def _parse_chains(feature: str, node: Node) -> Iterator[Chain]:
    """Yield the chains of a feature. `output` ends a chain, and the next one begins with the raw feature."""
    found: list[Step] = []
    start = node
    for key, value in _named_steps(node):
        if key == _OUTPUT:
            if not isinstance(value.value, str):
                raise _feature_error(feature, value, "output is the name of one feature")
            if not found:
                raise _feature_error(feature, value, f"output {value.value}: expected a step before it")
            yield _make_chain(feature, found, value.value, start)
            found = []
            continue
        if not found:
            start = value
        found.append(_parse_step(feature, key, value))
    if found:
        yield _make_chain(feature, found, "", start)


def _make_chain(feature: str, found: list[Step], output: str, start: Node) -> Chain:
    chain = Chain(feature, tuple(found), output, start.location)
    analyzers = [step.name for step in found if step.needs]
    if len(analyzers) > 1:
        raise chain.error(
            f"{analyzers[0]} and {analyzers[1]} in one chain: both take constants of the raw values; give the first an"
            " output, and the second begins anew"
        )
    return chain


def _named_steps(node: Node) -> Iterator[tuple[str, Node]]:
    """Yield (name, parameters) of a node's steps: a text has no parameters, and a list holds several steps."""
    for item in node.value if isinstance(node.value, tuple) else (node,):
        if isinstance(item.value, str):
            yield item.value, item
        elif isinstance(item.value, Mapping):
            yield from item.value.items()
        else:
            raise item.error(f"{node.key}: a list in a list; expected steps, one an item")


def _parse_step(feature: str, key: str, node: Node) -> Step:
    if key not in _STEP_CLASSES:
        if key == _DROP:
            raise _feature_error(feature, node, "drop is among other steps; expected it alone")
        raise _feature_error(feature, node, f"unknown step {key!r}; {expected_words(key, _STEP_CLASSES)}")
    try:
        return _make_step(_Parameters(feature, key, node))
    except OptionValueError as mistake:
        raise _feature_error(feature, node, str(mistake)) from None


class _Parameters(NamedTuple):
    feature: str
    step: str
    node: Node

    @property
    def are_missing(self) -> bool:
        return self.node.value in (self.step, "true")

    def mapping(self, *classes: type[Any]) -> dict[str, Any]:
        """Return the given parameters by name; those of `classes` are allowed."""
        if self.are_missing:
            return {}
        parsers = {item.name: _PARSERS[item.type] for cls in classes for item in fields(cls)}
        if not isinstance(self.node.value, Mapping):
            raise OptionValueError(
                f"{self.step}: expected {' or '.join(parsers)} below it, such as {{{next(iter(parsers))}: …}}"
            )
        for name, value in self.node.value.items():
            if name not in parsers:
                raise _feature_error(
                    self.feature, value, f"{self.step} has no {name!r}; {expected_words(name, parsers)}"
                )
        return {name: self._read(name, parsers[name], value) for name, value in self.node.value.items()}

    def _read(self, name: str, parse: Callable[[Node], Any], value: Node) -> Any:
        try:
            return parse(value)
        except OptionValueError as mistake:
            raise _feature_error(self.feature, value, f"{self.step}: {name}: {mistake}") from None

    def text(self) -> str:
        if not isinstance(self.node.value, str):
            raise OptionValueError(f"{self.step} takes one value, such as `{self.step}: 0`")
        return self.node.value


def _parse_integer(node: Node) -> int:
    try:
        return int(_single_text(node))
    except ValueError:
        raise OptionValueError(f"{_single_text(node)!r} is not a whole number") from None


def _parse_float(node: Node) -> float:
    try:
        number = float(_single_text(node))
    except ValueError:
        raise OptionValueError(f"{_single_text(node)!r} is not a number") from None
    if not math.isfinite(number):
        raise OptionValueError(f"{_single_text(node)} is not a finite number")
    return number


def _parse_floats(node: Node) -> tuple[float, ...]:
    if not isinstance(node.value, tuple):
        raise OptionValueError("expected a list of numbers, such as [0, 1]")
    return tuple(map(_parse_float, node.value))


def _single_text(node: Node) -> str:
    if not isinstance(node.value, str):
        raise OptionValueError("expected one value")
    return node.value


# By the type of a step's field
_PARSERS: Mapping[Any, Callable[[Node], Any]] = {
    str: _single_text,
    int: _parse_integer,
    int | None: _parse_integer,
    tuple[float, ...]: _parse_floats,
}
_STEP_CLASSES: dict[str, Any] = {"scale_0_1": steps.MinMax, **steps.STEPS}  # by their names in a transform.yaml
del _STEP_CLASSES[steps.Buckets.name]  # bucketize makes it


def _make_step(given: _Parameters) -> Step:
    match given.step:
        case "min_max":
            bounds = () if given.are_missing else _parse_floats(given.node)
            if len(bounds) != 2:
                raise OptionValueError(
                    "min_max takes what the least and the greatest value become, such as `min_max: [-1, 1]`"
                )
            return steps.MinMax(*bounds)
        case "bucketize":
            found = given.mapping(steps.Bucketize, steps.Buckets)
            if len(found) != 1:
                raise OptionValueError(
                    "bucketize takes num_buckets or boundaries, one of them, such as `{num_buckets: 10}`"
                )
            return steps.Bucketize(**found) if "num_buckets" in found else steps.Buckets(**found)
        case "vocabulary":
            return steps.Vocabulary(**given.mapping(steps.Vocabulary))
        case "hash":
            found = given.mapping(steps.Hash)
            if not found:
                raise OptionValueError("hash takes hash_buckets, such as `hash: {hash_buckets: 1000}`")
            return steps.Hash(**found)
        case "tokenize":
            has_pattern = isinstance(given.node.value, str) and not given.are_missing
            step = steps.Tokenize(given.text()) if has_pattern else steps.Tokenize(**given.mapping(steps.Tokenize))
            _check_pattern(step.pattern)
            return step
        case "fill":
            if given.node.value == "fill":
                raise OptionValueError("fill takes a value, such as `fill: 0`")
            return steps.Fill(given.text())
    if not given.are_missing:
        raise OptionValueError(f"{given.step} has no parameters; write `- {given.step}`")
    return _STEP_CLASSES[given.step]()


def _check_pattern(pattern: str) -> None:
    if pattern:
        try:
            of_nothing = pc.replace_substring_regex(pa.array([""]), pattern, "-")
        except pa.ArrowInvalid as error:
            raise OptionValueError(f"tokenize: {pattern!r} is no regular expression of RE2: {error}") from None
        if of_nothing[0].as_py():
            raise OptionValueError(f"tokenize: {pattern!r} matches the empty text, and would separate all letters")


def _feature_error(feature: str, node: Node, sentence: str) -> UserError:
    return node.error(f"feature {feature!r}: {sentence}")


@dataclass(frozen=True, slots=True)
class PreviousGraph:
    """The transform graph of an earlier version."""

    name: str  # name and version of its data set
    directory: str  # version directory
    declaration: Declaration  # declaration of the graph
    content: TransformFile  # content of its transform.json

    @classmethod
    def read(cls, path: str) -> "PreviousGraph":
        """Read the graph of the version in `path`, or of the version that LATEST in `path` names.

        Raises UserError if there is no data set or it has no such graph, CorruptDataError if its metadata is damaged.
        """
        dataset = open_dataset(path, storage.StorageFiles())
        manifest = dataset.manifest
        declared = manifest.configuration.get("transform")
        if manifest.configuration.get("module_file") is not None:
            raise UserError(
                f"--transform_graph {path}: the transform graph of {manifest.name} {manifest.version} was made"
                " by --module_file, whose analysis cannot be used again; give a version that was made with"
                " --transform"
            )
        if file_names.TRANSFORM not in manifest.files or not isinstance(declared, Mapping):
            raise UserError(
                f"--transform_graph {path}: {manifest.name} {manifest.version} has no transform graph; it is made with"
                " --transform"
            )
        where = storage.join(dataset.directory, file_names.MANIFEST)
        found = TransformFile.from_json(dataset.metadata(file_names.TRANSFORM), file_names.TRANSFORM)
        declaration = Declaration.from_json(declared, where)
        return cls(f"{manifest.name} {manifest.version}", dataset.directory, declaration, found)

    def constants(self, output: str, new: Constants | None) -> Constants:
        """Return the constants of an output of transformed examples, with the unknown values of the `new` examples."""
        previous = self.output(output)
        if previous.vocabulary is None:
            return Constants(previous.constants)
        lines = storage.read_bytes(storage.join(self.directory, previous.vocabulary.file)).split(b"\n")[:-1]
        entries = pa.table({"value": lines, "count": [0] * len(lines)}, schema=COUNT_SCHEMA)
        counts = {"entries": previous.vocabulary.entries, "distinct": previous.vocabulary.distinct}
        return Constants(counts, entries, new.unknown_counts if new is not None else {})

    def output(self, name: str) -> TransformedOutput:
        """Return the description of an output in the earlier version's transform.json."""
        return next(output for output in self.content.outputs if output.name == name)


def measure_drift(previous: Constants, new: Constants) -> dict[str, Any]:
    """Return the constants that the new examples would give an output, and their distance from the previous ones."""
    if previous.entries is not None and new.entries is not None:
        kept = pc.sum(pc.is_in(new.entries["value"], value_set=previous.entries["value"].combine_chunks())).as_py() or 0
        return {"entries": len(new.entries), "kept": kept}
    found = dict(new.numbers)
    if "mean" in found:
        found["shift"] = (found["mean"] - previous.numbers["mean"]) / previous.numbers["std_dev"]
    return found


def drift_notices(file: TransformFile) -> Iterator[str]:
    """Yield the notices about outputs with reused constants."""
    if not file.former:
        return
    yield f"the constants of transformed features are those of {file.former}"
    for output in file.outputs:
        name, found, old = output.name, output.drift or {}, output.constants
        if "shift" in found:
            yield (
                f"{name}: the mean is {found['mean']:.6g}, {abs(found['shift']):.2g} standard deviations"
                f" {'above' if found['shift'] >= 0 else 'below'} that of {file.former}"
            )
        elif "kept" in found:
            yield f"{name}: {found['kept']:,} of {found['entries']:,} entries would be those of {file.former}"
        elif "minimum" in found:
            if found["minimum"] < old["minimum"] or found["maximum"] > old["maximum"]:
                yield (
                    f"{name}: values are from {found['minimum']:.6g} to {found['maximum']:.6g}; in {file.former} they"
                    f" were from {old['minimum']:.6g} to {old['maximum']:.6g}"
                )
        elif "boundaries" in found and list(found["boundaries"]) != list(old["boundaries"]):
            shown = ", ".join(f"{boundary:.6g}" for boundary in found["boundaries"])
            yield f"{name}: the boundaries of buckets would be {shown}"
