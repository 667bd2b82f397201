"""Parse YAML into a tree of texts, each with its line number.

Scalars stay texts, as on a command line, so that `no` does not become False and `1.10` no number; each reader converts
its own values. Anchors, tags and repeated keys are refused, so that each value is written where it is used.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from shardmill.errors import UserError

MAX_BYTES = 1 << 20  # of a file
_MAX_DEPTH = 8  # four levels are the most that any file of ours has
_DATES = ("YYYY", "MM", "DD")
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})  # plain scalars that say that there is no value


@dataclass(frozen=True, slots=True)
class Document:
    """The expected kind of document, for error messages."""

    noun: str  # name of the document, with its article
    expected: str  # description of its content


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a YAML document: a text, a list or a mapping, with its line."""

    value: "str | tuple[Node, ...] | Mapping[str, Node]"
    file: str  # name as the user gave it
    line: int  # of the key if there is one, else of the value; from 1
    key: str = ""  # dotted, such as `checks.examples.warn`; "" for a document

    @property
    def location(self) -> str:
        """The file and line, to begin an error message."""
        return f"{self.file} line {self.line}"

    def error(self, sentence: str) -> UserError:
        """Return a UserError with `sentence` and the place of this node."""
        return UserError(f"{self.location}: {sentence}")

    def mapping(self) -> "Mapping[str, Node]":
        """Return the node's keys and values; raises UserError if it is no mapping."""
        if not isinstance(self.value, Mapping):
            raise self.error(
                f"{self.key or 'the document'} is {_kind(self.value)}; expected keys and values below it, one a line"
            )
        return self.value

    def text(self) -> str:
        """Return the node's text; raises UserError if it is none."""
        if not isinstance(self.value, str):
            hint = "; put a text that begins with { or [ in quotes" if self.value else ""
            raise self.error(f"{self.key or 'the document'} is {_kind(self.value)}; expected a text{hint}")
        return self.value

    def to_plain(self) -> Any:
        """Return the value without line numbers, as texts, lists and dictionaries."""
        if isinstance(self.value, str):
            return self.value
        if isinstance(self.value, Mapping):
            return {key: node.to_plain() for key, node in self.value.items()}
        return [node.to_plain() for node in self.value]

    def texts(self) -> "Iterator[Node]":
        """Yield every text in this tree."""
        if isinstance(self.value, str):
            yield self
            return
        for node in self.value.values() if isinstance(self.value, Mapping) else self.value:
            yield from node.texts()

    def map_texts(self, change: Any) -> "Node":
        """Return a copy of the tree in which each text is replaced by `change(node)`."""
        if isinstance(self.value, str):
            return dataclasses.replace(self, value=change(self))
        if isinstance(self.value, Mapping):
            return dataclasses.replace(self, value={key: node.map_texts(change) for key, node in self.value.items()})
        return dataclasses.replace(self, value=tuple(node.map_texts(change) for node in self.value))


def _kind(value: object) -> str:
    return "a text" if isinstance(value, str) else "a list" if isinstance(value, tuple) else "a mapping"


def read_documents(data: bytes, file: str, document: Document) -> list[Node]:
    """Parse the mappings of a YAML file; each of its documents, separated by `---`, is one.

    Raises UserError with file and line if it is no YAML, or uses features that are not allowed.
    """
    if len(data) > MAX_BYTES:
        raise UserError(f"{file} has {len(data):,} bytes; {document.noun} has some hundred; give the right file")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise UserError(f"{file} line {line}: not UTF-8; save the file as UTF-8") from None
    try:
        documents = list(_Builder(text, file, document).documents())
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise UserError(
            f"{file} line {line}: the character U+{ord(text[error.position]):04X} cannot be in YAML"
        ) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise UserError(f"{file} line {mark.line + 1 if mark is not None else 1}: {_problem(error)}") from None
    if not documents:
        raise UserError(f"{file} is empty; expected {document.noun}: {document.expected}")
    return documents


def _problem(error: "yaml.MarkedYAMLError") -> str:
    problem = error.problem or str(error)
    if r"'\t'" in problem:
        return "a tab where YAML wants spaces; indent with spaces"
    if "mapping values are not allowed" in problem:
        return "a ':' where no key can be; put a text that holds ': ' in quotes, and indent the keys of a mapping alike"
    context = f" {error.context}" if error.context else ""
    return f"not YAML: {problem}{context}"


class _Builder:
    """Builds trees from the events of PyYAML's parser, without constructing objects, so that no code can run."""

    def __init__(self, text: str, file: str, document: Document) -> None:
        self._events: Iterator[Any] = iter(yaml.parse(text, Loader=yaml.SafeLoader))
        self._file = file
        self._document = document

    def documents(self) -> Iterator[Node]:
        for event in self._events:
            if not isinstance(event, yaml.DocumentStartEvent):
                continue
            first = next(self._events)
            if isinstance(first, yaml.ScalarEvent) and not first.value and first.implicit[0]:
                continue  # nothing between two `---`
            node = self._node(first, "", first.start_mark.line + 1, 0)
            if not isinstance(node.value, Mapping):
                raise node.error(f"{_kind(node.value)}; expected {self._document.noun}: {self._document.expected}")
            yield node

    def _node(self, event: Any, key: str, line: int, depth: int) -> Node:
        own = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            name = f"{'*' if isinstance(event, yaml.AliasEvent) else '&'}{event.anchor}"
            raise self._error(own, f"{name}: anchors and aliases are not supported; write out what they refer to")
        if event.tag is not None and event.tag != "!":
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")  # as in the file
            raise self._error(own, f"tag {tag}: tags are not supported; write plain texts, lists and mappings")
        if depth > _MAX_DEPTH:
            raise self._error(own, f"mappings and lists are nested too deep for {self._document.noun}")
        if isinstance(event, yaml.ScalarEvent):
            if event.implicit[0] and event.value in _NULLS:
                hint = "leave the line out, or write '' for an empty text"
                if key.rpartition(".")[2] in _DATES:
                    hint = "put a text that begins with { in quotes"
                raise self._error(line, f"{key or 'an item'} has no value; {hint}")
            return Node(event.value, self._file, line, key)
        if isinstance(event, yaml.SequenceStartEvent):
            return Node(tuple(self._items(key, depth)), self._file, line, key)
        return Node(self._entries(key, depth), self._file, line, key)

    def _items(self, key: str, depth: int) -> Iterator[Node]:
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            yield self._node(event, key, event.start_mark.line + 1, depth + 1)

    def _entries(self, key: str, depth: int) -> dict[str, Node]:
        entries: dict[str, Node] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            line = event.start_mark.line + 1
            if not isinstance(event, yaml.ScalarEvent) or event.anchor is not None or event.tag is not None:
                raise self._error(line, "a key that is no plain word; put a text that begins with { or [ in quotes")
            name = event.value
            if name == "<<":
                raise self._error(line, "<<: merging is not supported; write out what it refers to")
            if name in entries:
                raise self._error(line, f"{name!r} is there twice; the first is in line {entries[name].line}")
            entries[name] = self._node(next(self._events), f"{key}.{name}" if key else name, line, depth + 1)
        return entries

    def _error(self, line: int, sentence: str) -> UserError:
        return UserError(f"{self._file} line {line}: {sentence}")
