"""Class names and ids: sorted names from 0, or the fixed names of a labels file."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from shardmill.data.features import BACKGROUND_CLASS, Feature, Features
from shardmill.errors import UserError
from shardmill.metadata import file_names
from shardmill.text import did_you_mean

_MAX_SHOWN = 60  # letters of a name that is too long
LABELS_FILE, CATEGORY = "--labels_file", "its categories"  # origins of class names
ON_NEW_LABEL = ("fail", "append", "reject")


@dataclass(frozen=True)
class ClassNames:
    """The class names of a label feature; a name's id is its position."""

    names: tuple[str, ...]
    source: str = field(default=LABELS_FILE, compare=False)  # origin of the names, for messages
    ids: Mapping[str, int] = field(init=False, repr=False, compare=False)  # by name

    def __post_init__(self) -> None:
        ids = {name: index for index, name in enumerate(self.names)}
        if len(ids) != len(self.names):
            twice = next(name for index, name in enumerate(self.names) if ids[name] != index)
            raise UserError(f"class name {twice!r} is twice in {self.source}; it has one id: remove one of the two")
        for name in self.names:
            if not name or name != name.strip() or "\n" in name or "\r" in name:
                raise UserError(
                    f"class name {name!r} cannot be in a labels file, which holds one name a line; "
                    "rename the class so that it has no line break and no space at its ends"
                )
        object.__setattr__(self, "ids", ids)

    def id(self, name: str) -> int | None:
        """Return the id of class `name`, or None if there is no such class."""
        return self.ids.get(name)

    def __len__(self) -> int:
        return len(self.names)


def check_label_name(label: str) -> None:
    """Check that a label, such as image/class/label, gives its labels file a valid name; raise UserError otherwise."""
    if not (file_names.is_inside(label) and file_names.is_file_name(file_names.labels_file(label))):
        shown = label if len(label) <= _MAX_SHOWN else f"{label[:_MAX_SHOWN]}…"
        raise UserError(
            f"--label {shown!r}: its class names are stored in a file named after it, and this is no valid file name;"
            " rename the column: no '\\', no control characters, between '/' neither nothing nor '.' nor '..',"
            f" and {file_names.MAX_LABEL_BYTES} bytes at most"
        )


def labels_files(labels: Features) -> dict[str, str]:
    """Return the content of each labels file by name; raise UserError if a label has no valid or no own file."""
    named: dict[str, Feature] = {}
    for feature in labels:
        check_label_name(feature.stem)
        file = file_names.labels_file(feature.stem)
        if (other := named.setdefault(file, feature)) is not feature:
            raise UserError(
                f"{other.name!r} and {feature.name!r} would have the names of their classes in one file, {file};"
                " --rename one of them"
            )
    return {file: "".join(f"{name}\n" for name in feature.class_names) for file, feature in named.items()}


def resolve_class_names(
    found: Iterable[str], frozen: Sequence[str] | None, on_new_label: str, source: str = LABELS_FILE
) -> ClassNames:
    """Return the class names of a build, sorted or in the order of `frozen`, the names in `source`.

    Args:
        on_new_label: treatment of a class that `frozen` lacks: `fail`, `append` (ids after the frozen ones, sorted by
            name) or `reject` (no id; its records are rejected).

    Raises:
        UserError: if there is a new class and `on_new_label` is `fail`; the message names it.
    """
    names = sorted(set(found))
    if frozen is None:
        return ClassNames(tuple(names))
    known = set(frozen)
    new = [name for name in names if name not in known]
    if new and on_new_label == "fail":
        hint = did_you_mean(new[0], frozen, " (did you mean {!r}?)")
        more = f" and {len(new) - 1} more are" if len(new) > 1 else " is"
        add = "add it there, or " if source == LABELS_FILE else ""
        raise UserError(
            f"class {new[0]!r}{hint}{more} in the input but not in {source}; {add}give "
            "--on_new_label append (a new id at the end) or reject (its records go to rejects/)"
        )
    return ClassNames((*frozen, *new) if on_new_label == "append" else tuple(frozen), source)


_ITEM = re.compile(r"\bitem\s*\{([^}]*)\}")  # of a StringIntLabelMap in text form, as the Object Detection API has it
_ITEM_ID = re.compile(r"\bid\s*:\s*(\d+)")
_ITEM_NAME = re.compile(r"""\b(display_name|name)\s*:\s*(["'])(.*?)\2""")


def parse_label_map(text: str) -> tuple[str, ...]:
    """Parse a label_map.pbtxt: names by id, `background` for a missing id 0, `unused_N` for others; () if it is none.

    A display name has precedence over a name, which may be an id of Open Images or MS COCO.
    """
    found: dict[int, str] = {}
    for item in _ITEM.findall(text):
        names = {kind: name for kind, _, name in _ITEM_NAME.findall(item)}
        number = _ITEM_ID.search(item)
        if number is not None and names:
            found[int(number[1])] = names.get("display_name") or names["name"]
    return tuple(
        found.get(number, f"unused_{number}" if number else BACKGROUND_CLASS)
        for number in range(max(found, default=-1) + 1)
    )


def parse_labels(text: str, name: str) -> tuple[str, ...]:
    """Parse a labels file, one name a line, or a label map of the Object Detection API; errors say its `name`."""
    if found := parse_label_map(text):
        return ClassNames(found).names
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    names = tuple(lines[:-1] if lines[-1] == "" else lines)
    if not names:
        raise UserError(f"--labels_file {name} is empty; expected one class name a line")
    return ClassNames(names).names
