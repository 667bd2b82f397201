"""Labels of a manifest's rows that are lists of classes, as one text, which is what references to files have."""

import json
from collections import Counter
from collections.abc import Iterable

_MARK = "\0"  # with which no label begins


def as_text(names: Iterable[str]) -> str:
    """The names of some classes as one text."""
    return _MARK + json.dumps(list(names), ensure_ascii=False)


def names_in(text: str) -> list[str] | None:
    """The names of the classes in a text from `as_text`; None of a label that is one class."""
    return [str(name) for name in json.loads(text[len(_MARK) :])] if text.startswith(_MARK) else None


def is_reserved(label: str) -> bool:
    """Whether the name of a class would be taken for a list of them."""
    return label.startswith(_MARK)


def count_lists(labels: Iterable[str | None]) -> tuple[Counter[str], Counter[str]]:
    """How many rows have each class, "" where they have none; and how many labels are `lists`, or one class (`single`),
    or of `several` classes, and how many classes are `repeated` in their rows."""
    classes: Counter[str] = Counter()
    odd: Counter[str] = Counter()
    single = 0
    for label in labels:
        names = names_in(label) if label is not None else None
        if names is None:
            classes[label or ""] += 1
            single += bool(label)
            continue
        different = set(names)
        classes.update(different or [""])
        odd.update(lists=1, several=int(len(different) > 1), repeated=len(names) - len(different))
    if single:
        odd["single"] = single
    return classes, +odd  # without those that none are of
