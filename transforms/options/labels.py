"""Class names: frozen by a file, and what a new one does."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from shardmill.errors import UserError
from shardmill.metadata import naming
from shardmill.metadata.labels import LABELS_FILE, ON_NEW_LABEL, parse_labels
from shardmill.transforms.options.declare import Options, flag
from shardmill.transforms.options.given_files import read_given

Labels = tuple[str, ...] | Mapping[str, tuple[str, ...]]


def read_labels(value: Any) -> Labels:
    """The class names in the file at a path, or by label those of `a=PATH,b=PATH`; names that are given themselves stay
    as they are.

    Raises:
      UserError: a file cannot be read, or holds no class names.
    """
    if isinstance(value, Mapping):
        return {name: tuple(_read(names) if isinstance(names, str) else names) for name, names in value.items()}
    if not isinstance(value, str):
        return tuple(value)
    named = [part.partition("=") for part in next(csv.reader([value]), ())]
    if len(named) > 1 and all(name and path for name, _, path in named):
        return {name: _read(path) for name, _, path in named}
    return _read(value)


def _read(value: str) -> tuple[str, ...]:
    try:
        return parse_labels(read_given("labels_file", value).decode(), value)
    except UnicodeDecodeError:
        raise UserError(f"--labels_file {value} is not UTF-8") from None


def _to_json(labels: Labels) -> Any:
    if isinstance(labels, Mapping):
        return {label: list(names) for label, names in labels.items()}
    return list(labels)


@dataclass(frozen=True, kw_only=True)
class LabelOptions(Options):
    """Class names.

    Attributes:
      labels: the names in the order of their ids, which they keep, or, of several labels, those of each; None for those
        of the input in sorted order.
      kept_of: the version that they are kept of; "" where they are those of --labels_file.
    """

    title: ClassVar[str] = "labels"

    labels: Labels | None = flag(
        None,
        "class names, one a line: freezes their ids; of several labels a=FILE,b=FILE",
        name="labels_file",
        parse=read_labels,
        to_json=_to_json,
    )
    on_new_label: str = flag("fail", "what a class not in --labels_file does", choices=ON_NEW_LABEL)

    kept_of: str = ""

    @property
    def source(self) -> str:
        """Where the names come from, in words."""
        return f"the kept labels of version {self.kept_of}" if self.kept_of else LABELS_FILE

    @property
    def given(self) -> str:
        """That they are given, in words, which a reason why they must not be follows."""
        return f"the labels of version {self.kept_of} are kept" if self.kept_of else f"{LABELS_FILE} was given"

    def names_of(self, label: str = "label", labels: Sequence[str] = ("label",)) -> tuple[str, ...] | None:
        """The names that are given for one of the `labels`; None where there are none.

        Raises:
          UserError: there are several labels and names of one, or of others.
        """
        if self.labels is None:
            return None
        if not isinstance(self.labels, Mapping):
            if len(labels) > 1:
                each = ",".join(f"{name}={naming.labels_file(name)}" for name in labels)
                raise UserError(f"{self.given}, but --label names {len(labels)} columns; give --labels_file {each}")
            return self.labels
        if label not in self.labels and not self.kept_of:
            raise UserError(f"{self.source} says nothing of the classes of {label!r}, but of {', '.join(self.labels)}")
        return self.labels.get(label)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.on_new_label != "fail" and self.labels is None:
            raise UserError(f"--on_new_label {self.on_new_label} needs --labels_file")
