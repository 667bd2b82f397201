"""Objects in the images of samples, as their .json says them: in the form of Hugging Face's data sets. Pure."""

from dataclasses import dataclass, field
from typing import Any

import orjson

from shardmill.transforms.columns.inferred import MAX_VALUES, Told, ToldObjects
from shardmill.transforms.formats.parquet.huggingface import BOX, label_key


def is_of_objects(value: Any) -> bool:
    """Whether a value says where things are in an image, an object with lists of one length or a list of objects, or
    that there is nothing."""
    items = value if isinstance(value, list) else [value]
    if not all(isinstance(item, dict) for item in items):
        return False
    return value in ([], {}) or any(BOX in item for item in items)


@dataclass(slots=True)
class SeenObjects:
    """What some samples say of the objects in their images: under which names, and of which classes these are."""

    _keys: set[str] = field(default_factory=set)
    _ids: set[str] = field(default_factory=set)
    _names: set[str] = field(default_factory=set)
    _places: dict[bool | None, str] = field(default_factory=dict)  # of the first ids, names, or neither

    def text(self, value: Any, place: str) -> str | None:
        """What stands in the column for a value that is of objects, which is taken note of: its JSON, None of none;
        `place` is what errors call the sample."""
        self._places.setdefault(None, place)
        items = value if isinstance(value, list) else [value]
        for item in items:
            self._keys.update(item)
            label = item.get(label_key(item))
            for name in label if isinstance(label, list) else [label]:
                if isinstance(name, str):
                    self._names.add(name)
                    self._places.setdefault(False, place)
                elif type(name) is int:  # True is one, too
                    self._ids.add(str(name))
                    self._places.setdefault(True, place)
        if not value or (isinstance(value, dict) and not value.get(BOX) and not value.get(label_key(value))):
            return None
        return orjson.dumps(value).decode()

    @property
    def told(self) -> Told | None:
        """What there is to tell of the column; None if no sample says anything of objects."""
        if not self._keys:
            return None
        kinds: list[bool | None] = [numbered for numbered, seen in ((True, self._ids), (False, self._names)) if seen]
        keys = tuple(sorted(self._keys))
        found = [ToldObjects(keys, kind, by_rows=True, place=self._places[kind]) for kind in kinds or [None]]
        return Told("bbox", objects=frozenset(found))

    @property
    def classes(self) -> frozenset[str] | None:
        """The names or ids of classes, as texts; None of too many."""
        found = frozenset(self._ids | self._names)
        return found if len(found) <= MAX_VALUES else None
