"""transform.json: what was found for the outputs of a transform graph, and of which examples."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shardmill.metadata.json_values import Value, parse_file

FORMAT = 1  # raised when a reader of the former format would misread the file
HEAD = 10  # entries of a vocabulary that are listed


@dataclass(frozen=True, slots=True)
class VocabularySummary:
    """What is said of a vocabulary.

    Attributes:
      file: that holds its entries, one a line, relative to the version directory.
      entries: how many there are.
      distinct: how many values there were, before a threshold or a limit.
      head: the most frequent entries, each with its count.
      unknown: by split: how many values there are, and how many of them are out of the vocabulary.
    """

    file: str
    entries: int
    distinct: int
    head: tuple[tuple[str, int], ...]
    unknown: Mapping[str, tuple[int, int]]

    @classmethod
    def from_json(cls, value: Value) -> "VocabularySummary":
        """What the file has; raises ValueError."""
        pairs = (pair.items() for pair in value["head"].items())
        return cls(
            value["file"].text(),
            value["entries"].integer(),
            value["distinct"].integer(),
            tuple((entry.text(), count.integer()) for entry, count in pairs),
            {
                split: (found["values"].integer(), found["unknown"].integer())
                for split, found in value["unknown"].entries().items()
            },
        )

    def to_json(self) -> dict[str, Any]:
        """As the file has it."""
        return {
            "file": self.file,
            "entries": self.entries,
            "distinct": self.distinct,
            "head": [list(pair) for pair in self.head],
            "unknown": {split: {"values": n, "unknown": out} for split, (n, out) in self.unknown.items()},
        }


@dataclass(frozen=True, slots=True)
class Asset:
    """A file of a graph whose lines are what was found, such as a vocabulary.

    Attributes:
      file: relative to the version directory.
      entries: how many lines there are.
      head: the first of them.
    """

    file: str
    entries: int
    head: tuple[str, ...]

    @classmethod
    def from_json(cls, value: Value) -> "Asset":
        """What the file has; raises ValueError."""
        head = tuple(entry.text() for entry in value["head"].items())
        return cls(value["file"].text(), value["entries"].integer(), head)

    def to_json(self) -> dict[str, Any]:
        """As the file has it."""
        return {"file": self.file, "entries": self.entries, "head": list(self.head)}


@dataclass(frozen=True, slots=True)
class ModuleSummary:
    """What is said of a graph that a module's preprocessing_fn made.

    Attributes:
      name: of the module's file.
      sha256: of its text.
      found: SHA-256 of what TFT's analyzers found: the numbers in the graph, and its assets.
      assets: such as vocabularies.
    """

    name: str
    sha256: str
    found: str
    assets: tuple[Asset, ...] = ()

    @classmethod
    def from_json(cls, value: Value) -> "ModuleSummary":
        """What the file has; raises ValueError."""
        assets = tuple(map(Asset.from_json, value["assets"].items()))
        return cls(value["name"].text(), value["sha256"].text(), value["found"].text(), assets)

    def to_json(self) -> dict[str, Any]:
        """As the file has it."""
        told = {"name": self.name, "sha256": self.sha256, "found": self.found}
        return {**told, "assets": [asset.to_json() for asset in self.assets]}


@dataclass(frozen=True, slots=True)
class TransformedOutput:
    """One feature of transformed examples.

    Attributes:
      name: of it.
      feature: of raw examples, that it is made of; "" where a module made it, and nobody knows of what.
      steps: in their order, each `{name: parameters}`; none where the feature stays as it is.
      constants: that were found, by name.
      vocabulary: None where it has none.
      drift: where constants are those of a former version, what the examples would have made of them; else empty.
    """

    name: str
    feature: str
    steps: tuple[Mapping[str, Any], ...] = ()
    constants: Mapping[str, Any] = field(default_factory=dict)
    vocabulary: VocabularySummary | None = None
    drift: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: Value) -> "TransformedOutput":
        """What the file has; raises ValueError."""
        entry = value.mapping()
        return cls(
            value["name"].text(),
            value["feature"].text(),
            tuple(step.mapping() for step in value["steps"].items()),
            value["constants"].mapping(),
            VocabularySummary.from_json(value["vocabulary"]) if "vocabulary" in entry else None,
            value.get("drift", {}).mapping(),
        )

    def to_json(self) -> dict[str, Any]:
        """As the file has it."""
        told = {
            "name": self.name,
            "feature": self.feature,
            "steps": [dict(step) for step in self.steps],
            "constants": dict(self.constants),
        }
        if self.vocabulary is not None:
            told["vocabulary"] = self.vocabulary.to_json()
        return told | ({"drift": dict(self.drift)} if self.drift else {})


@dataclass(frozen=True, slots=True)
class TransformFile:
    """The whole file.

    Attributes:
      analyzed: how many examples constants were taken of, by split.
      outputs: in their order.
      former: the data set and version that the constants are of, "" where they are of these examples.
      module: that made the graph; None where --transform did.
    """

    analyzed: Mapping[str, int]
    outputs: tuple[TransformedOutput, ...]
    former: str = ""
    module: ModuleSummary | None = None

    def to_json(self) -> str:
        """The text of the file."""
        content = {
            "format": FORMAT,
            "analyzed": dict(self.analyzed),
            **({"former": self.former} if self.former else {}),
            **({"module": self.module.to_json()} if self.module is not None else {}),
            "outputs": [output.to_json() for output in self.outputs],
        }
        return json.dumps(content, ensure_ascii=False, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes, name: str) -> "TransformFile":
        """Parse the text of the file called `name`.

        Raises:
          CorruptDataError: it is no such file, or one of a newer format.
        """
        return parse_file(text, name, FORMAT, "does not say what was found for a transform", cls._of)

    @classmethod
    def _of(cls, content: Value) -> "TransformFile":
        analyzed = {split: count.integer() for split, count in content["analyzed"].entries().items()}
        outputs = tuple(map(TransformedOutput.from_json, content["outputs"].items()))
        module = ModuleSummary.from_json(content["module"]) if "module" in content.mapping() else None
        return cls(analyzed, outputs, content.get("former", "").text(), module)
