"""Class names and their ids: sorted names from 0, or a frozen file that rebuilds keep to."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from shardmill.errors import UserError
from shardmill.features.feature import Feature, Features
from shardmill.metadata import naming

_SHOWN = 60  # letters of a name that is too long
LABELS_FILE = "--labels_file"
ON_NEW_LABEL = ("fail", "append", "reject")


@dataclass(frozen=True)
class ClassNames:
    """The class names of a label feature; a name's id is its position.

    Attributes:
      names: of the classes.
      source: where they come from, in words: a record may have another class.
    """

    names: tuple[str, ...]
    source: str = field(default=LABELS_FILE, compare=False)
    _ids: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        ids = {name: index for index, name in enumerate(self.names)}
        if len(ids) != len(self.names):
            twice = next(name for index, name in enumerate(self.names) if ids[name] != index)
            raise UserError(f"class name {twice!r} stands twice in {self.source}; it has one id: remove one of the two")
        for name in self.names:
            if not name or name != name.strip() or "\n" in name or "\r" in name:
                raise UserError(
                    f"class name {name!r} cannot stand in a labels file, which holds one name a line; "
                    "rename the class so that it has no line break and no space at its ends"
                )
        object.__setattr__(self, "_ids", ids)

    def id(self, name: str) -> int | None:
        """The id of class `name`, or None if it is not a class."""
        return self._ids.get(name)

    @property
    def ids(self) -> Mapping[str, int]:
        """The id of each class by its name."""
        return self._ids

    def __len__(self) -> int:
        return len(self.names)


def check_label_name(label: str) -> None:
    """Check that the file of a label's class names, which is called after it, is a file in the data set's directory;
    the label may be called image/class/label.

    Raises:
      UserError: its name would be a way to another folder, or can be none; nobody else's file is to be overwritten.
    """
    if not (naming.is_inside(label) and naming.is_file_name(naming.labels_file(label))):
        shown = label if len(label) <= _SHOWN else f"{label[:_SHOWN]}…"
        raise UserError(
            f"--label {shown!r}: the names of its classes stand in a file that is called after it, and that is no name"
            " for one; rename the column: no '\\', no control characters, between '/' neither nothing nor '.' nor '..',"
            f" and {naming.MAX_LABEL_BYTES} bytes at most"
        )


def labels_files(labels: Features) -> dict[str, str]:
    """The content of the file of each label's class names, by its name.

    Raises:
      UserError: see check_label_name; or two would have one file.
    """
    named: dict[str, Feature] = {}
    for feature in labels:
        check_label_name(feature.stem)
        file = naming.labels_file(feature.stem)
        if (other := named.setdefault(file, feature)) is not feature:
            raise UserError(
                f"{other.name!r} and {feature.name!r} would have the names of their classes in one file, {file};"
                " --rename one of them"
            )
    return {file: "".join(f"{name}\n" for name in feature.class_names) for file, feature in named.items()}


def resolve_class_names(
    found: Iterable[str], frozen: Sequence[str] | None, on_new_label: str, source: str = LABELS_FILE
) -> ClassNames:
    """The class table of a build.

    Args:
      found: the class names in the input, in any order, each any number of times.
      frozen: the names of `source`, in id order, or None.
      on_new_label: what becomes of a found class that `frozen` lacks: `fail`, `append` (ids after the frozen ones, in
        sorted order) or `reject` (the class gets no id; its records are rejected).
      source: see ClassNames.

    Raises:
      UserError: a new class with `fail`; the message names it.
    """
    names = sorted(set(found))
    if frozen is None:
        return ClassNames(tuple(names))
    known = set(frozen)
    new = [name for name in names if name not in known]
    if new and on_new_label == "fail":
        near = difflib.get_close_matches(new[0], frozen, 1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        more = f" and {len(new) - 1} more are" if len(new) > 1 else " is"
        add = "add it there, or " if source == LABELS_FILE else ""
        raise UserError(
            f"class {new[0]!r}{hint}{more} in the input but not in {source}; {add}give "
            "--on_new_label append (a new id at the end) or reject (its records go to rejects/)"
        )
    return ClassNames((*frozen, *new) if on_new_label == "append" else tuple(frozen), source)


def parse_labels(text: str, name: str) -> tuple[str, ...]:
    """The names in the text of a labels file, one a line; `name` is what errors call the file."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    names = tuple(lines[:-1] if lines[-1] == "" else lines)
    if not names:
        raise UserError(f"--labels_file {name} is empty; expected one class name a line")
    return ClassNames(names).names
