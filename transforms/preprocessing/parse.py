"""A transform.yaml as a declaration; every mistake with its feature and its line. Pure.

```yaml
age: z_score
fare: [log1p, scale_0_1]
city: {vocabulary: {top_k: 1000, num_oov_buckets: 1}}
review:
  - lower
  - tokenize: "[^a-z]+"
  - vocabulary: {top_k: 20000, num_oov_buckets: 1}
income:
  - {z_score: true, output: income_scaled}
  - {bucketize: {num_buckets: 10}, output: income_bucket}
id: drop
```
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from shardmill.errors import UserError
from shardmill.transforms.options.declare import ValueMistake
from shardmill.transforms.options.words import meant
from shardmill.transforms.options.yaml_nodes import Document, Node, read_documents
from shardmill.transforms.preprocessing import steps
from shardmill.transforms.preprocessing.declaration import Chain, Declaration
from shardmill.transforms.preprocessing.steps import Step

_TRANSFORM = Document("a transform", "features and what becomes of each, such as `age: z_score`")
_OUTPUT, _DROP = "output", "drop"


def parse_transform(data: bytes, file: str) -> Declaration:
    """The declaration in the bytes of `file`.

    Raises:
      UserError: a mistake; the sentence names file, line, feature and key.
    """
    documents = read_documents(data, file, _TRANSFORM)
    if len(documents) > 1:
        raise documents[1].wrong("another document begins; expected one")
    chains: list[Chain] = []
    dropped: list[tuple[str, str]] = []
    for feature, node in documents[0].mapping().items():
        if node.value == _DROP:
            dropped.append((feature, node.where))
        else:
            chains += _chains(feature, node)
    if not chains and not dropped:
        raise documents[0].wrong("names no feature; expected features and what becomes of each")
    return Declaration(tuple(chains), tuple(dropped))


def _chains(feature: str, node: Node) -> Iterator[Chain]:
    """The chains of a feature: `output` ends one, and the next begins with the raw feature again."""
    found: list[Step] = []
    start = node
    for key, value in _words(node):
        if key == _OUTPUT:
            name = _text(feature, value)
            if not found:
                raise _wrong(feature, value, f"output {name}: no step stands before it")
            yield _chain(feature, found, name, start)
            found = []
            continue
        if not found:
            start = value
        found.append(_step(feature, key, value))
    if found:
        yield _chain(feature, found, "", start)


def _chain(feature: str, found: list[Step], output: str, start: Node) -> Chain:
    made = Chain(feature, tuple(found), output, start.where)
    analyzers = [step.name for step in found if step.needs]
    if len(analyzers) > 1:
        raise made.wrong(
            f"{analyzers[0]} and {analyzers[1]} in one chain: both take constants of the raw values; give the first an"
            " output, and the second begins anew"
        )
    return made


def _words(node: Node) -> Iterator[tuple[str, Node]]:
    """The steps of a node: a text is one without parameters, a mapping has them, a list has several."""
    for item in node.value if isinstance(node.value, tuple) else (node,):
        if isinstance(item.value, str):
            yield item.value, item
        elif isinstance(item.value, Mapping):
            yield from item.value.items()
        else:
            raise item.wrong(f"{node.key}: a list in a list; expected steps, one an item")


def _step(feature: str, key: str, node: Node) -> Step:
    if key not in _MAKERS:
        if key == _DROP:
            raise _wrong(feature, node, "drop stands among other steps; expected it alone")
        raise _wrong(feature, node, f"unknown step {key!r}; {meant(key, _MAKERS)}")
    bare = node.value in (key, "true")
    try:
        return _MAKERS[key](_Parameters(feature, key, node, bare))
    except ValueMistake as mistake:
        raise _wrong(feature, node, str(mistake)) from None


class _Parameters:
    """The parameters of one step, asked for by name and type."""

    def __init__(self, feature: str, step: str, node: Node, bare: bool) -> None:
        self.feature, self.step, self.node, self.bare = feature, step, node, bare

    def none(self) -> None:
        """Check that there are none."""
        if not self.bare:
            raise ValueMistake(f"{self.step} has no parameters; write `- {self.step}`")

    def mapping(self, **types: Callable[[Node], Any]) -> dict[str, Any]:
        """Those that are given, each as its type reads it."""
        if self.bare:
            return {}
        if not isinstance(self.node.value, Mapping):
            raise ValueMistake(
                f"{self.step}: expected {' or '.join(types)} below it, such as {{{next(iter(types))}: …}}"
            )
        for name, value in self.node.value.items():
            if name not in types:
                raise _wrong(self.feature, value, f"{self.step} has no {name!r}; {meant(name, types)}")
        return {name: self._read(name, types[name], value) for name, value in self.node.value.items()}

    def _read(self, name: str, read: Callable[[Node], Any], value: Node) -> Any:
        try:
            return read(value)
        except ValueMistake as mistake:
            raise _wrong(self.feature, value, f"{self.step}: {name}: {mistake}") from None

    def text(self) -> str:
        """The one text that it takes."""
        if not isinstance(self.node.value, str):
            raise ValueMistake(f"{self.step} takes one value, such as `{self.step}: 0`")
        return self.node.value

    def list(self) -> tuple[float, ...]:
        """The numbers that it takes."""
        return _floats(self.node)


def _integer(node: Node) -> int:
    try:
        return int(_plain(node))
    except ValueError:
        raise ValueMistake(f"{_plain(node)!r} is not a whole number") from None


def _float(node: Node) -> float:
    try:
        number = float(_plain(node))
    except ValueError:
        raise ValueMistake(f"{_plain(node)!r} is not a number") from None
    if not math.isfinite(number):
        raise ValueMistake(f"{_plain(node)} is not a finite number")
    return number


def _floats(node: Node) -> tuple[float, ...]:
    if not isinstance(node.value, tuple):
        raise ValueMistake("expected a list of numbers, such as [0, 1]")
    return tuple(map(_float, node.value))


def _plain(node: Node) -> str:
    if not isinstance(node.value, str):
        raise ValueMistake("expected one value")
    return node.value


def _text(feature: str, node: Node) -> str:
    if not isinstance(node.value, str):
        raise _wrong(feature, node, "output is the name of one feature")
    return node.value


def _fill(given: _Parameters) -> Step:
    if given.bare and given.node.value == "fill":
        raise ValueMistake("fill takes a value, such as `fill: 0`")
    return steps.Fill(given.text())


def _tokenize(given: _Parameters) -> Step:
    if given.bare or not isinstance(given.node.value, str):
        return _checked(steps.Tokenize(**given.mapping(pattern=_plain)))
    return _checked(steps.Tokenize(given.text()))


def _checked(step: steps.Tokenize) -> Step:
    """The step, if what parts texts, RE2, takes its pattern: other engines take other expressions."""
    if step.pattern:
        try:
            of_nothing = pc.replace_substring_regex(pa.array([""]), step.pattern, "-")
        except pa.ArrowInvalid as error:
            raise ValueMistake(f"tokenize: {step.pattern!r} is no regular expression of RE2: {error}") from None
        if of_nothing[0].as_py():
            raise ValueMistake(f"tokenize: {step.pattern!r} matches nothing at all, and would part every letter")
    return step


def _plainly(cls: type[Any]) -> Callable[[_Parameters], Step]:
    def make(given: _Parameters) -> Step:
        given.none()
        step: Step = cls()
        return step

    return make


def _min_max(given: _Parameters) -> Step:
    bounds = () if given.bare else given.list()
    if len(bounds) != 2:
        raise ValueMistake("min_max takes what the least and the greatest value become, such as `min_max: [-1, 1]`")
    return steps.MinMax(*bounds)


def _bucketize(given: _Parameters) -> Step:
    found = given.mapping(num_buckets=_integer, boundaries=_floats)
    if len(found) != 1:
        raise ValueMistake("bucketize takes num_buckets or boundaries, one of them, such as `{num_buckets: 10}`")
    return steps.Bucketize(**found) if "num_buckets" in found else steps.Buckets(**found)


def _vocabulary(given: _Parameters) -> Step:
    names = ("top_k", "frequency_threshold", "num_oov_buckets", "default_value")
    return steps.Vocabulary(**given.mapping(**dict.fromkeys(names, _integer)))


def _hash(given: _Parameters) -> Step:
    found = given.mapping(hash_buckets=_integer)
    if not found:
        raise ValueMistake("hash takes hash_buckets, such as `hash: {hash_buckets: 1000}`")
    return steps.Hash(**found)


_MAKERS: Mapping[str, Callable[[_Parameters], Step]] = {
    "z_score": _plainly(steps.ZScore),
    "scale_0_1": _plainly(steps.MinMax),
    "min_max": _min_max,
    "bucketize": _bucketize,
    "vocabulary": _vocabulary,
    "hash": _hash,
    "one_hot": _plainly(steps.OneHot),
    "lower": _plainly(steps.Lower),
    "tokenize": _tokenize,
    "log1p": _plainly(steps.Log1p),
    "fill": _fill,
}


def _wrong(feature: str, node: Node, sentence: str) -> UserError:
    return node.wrong(f"feature {feature!r}: {sentence}")
