"""A folder of masks: which belongs to which image, by the names of both without their suffix. Pure but for listing."""

import os
import posixpath
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import xxhash

from shardmill.errors import UserError
from shardmill.metadata.rejects import Reject
from shardmill.transforms.inputs.file_kind import IMAGES
from shardmill.transforms.inputs.listing import Found, list_input
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.identity import identity_of

Mask = tuple[str, int, int | None]  # path, size in bytes, identity
_SHOWN = 3  # names of masks without an image
_ROWS = pa.schema(
    [
        pa.field("name", pa.string()),
        pa.field("size", pa.int64()),
        pa.field("identity", pa.uint64()),
    ]
)


class Masks:
    """The masks below a folder, some dozen bytes each; says at the end which were asked for by none.

    Raises:
      UserError: there is no such folder, or no image in it.
    """

    def __init__(self, folder: str, identities: bool = True, annotated: bool = False) -> None:
        """Args:

        folder: them.
        identities: whether it is asked which files are still what they were.
        annotated: whether annotations name the images, whose outer folders, such as JPEGImages, masks need not have.
        """
        if storage.is_local(folder) and not os.path.isdir(folder):
            raise UserError(f"--masks {folder}: no such folder")
        self._folder, self._asked, self._annotated = folder, identities, annotated
        self._unlisted: list[str] = []
        rows = list(zip(*self._listed(), strict=True))
        self._rows = pa.RecordBatch.from_arrays(
            [pa.array(rows[place] if rows else [], field.type) for place, field in enumerate(_ROWS)], schema=_ROWS
        )
        self._names, self._sizes, self._identities = self._rows.columns
        if not rows:
            raise UserError(f"--masks {folder}: there is no image in that folder")
        keys = np.fromiter((_key(name) for name in self._names.to_pylist()), np.uint64, len(self._rows))
        self._order = np.argsort(keys, kind="stable")
        self._keys = keys[self._order]
        self._owners = np.zeros(len(keys), np.uint64)  # keys of the images that asked for each

    def _listed(self) -> Iterator[tuple[str, int, int | None]]:
        for item in list_input(self._folder, IMAGES):
            if isinstance(item, Found):
                identity = identity_of(item.size_bytes, item.stamp, item.modified) if self._asked else None
                yield item.name, item.size_bytes, identity
            elif isinstance(item, Reject):
                self._unlisted.append(f"{item.source}: {item.reason}")

    def of(self, name: str) -> Mask | str:
        """Path, size and identity of the mask of the image called `name`; or why there is none.

        Raises:
          UserError: of annotated images, two of different folders would have one mask.
        """
        stems = _inner_stems(name) if self._annotated else [_stem(name)]
        found = next(filter(None, map(self._called, stems)), [])
        if not found:
            return f"no mask: {self._folder} has none that is called as the image is, but for the suffix"
        if len(found) > 1:
            return f"two masks, {found[0][0]} and {found[1][0]}: which is it?"
        ((mask, place),) = found
        key = np.uint64(_key(name))
        if self._owners[place] not in (0, key):
            raise UserError(
                f"--masks {self._folder}: {mask!r} would be the mask of {name!r} and of an image in another folder;"
                f" masks are to lie in folders as their images do: {stems[0]!r}, with the suffix of an image"
            )
        self._owners[place] = key
        path = storage.join(self._folder, mask)
        return path, self._sizes[place].as_py(), self._identities[place].as_py()

    def _called(self, stem: str) -> list[tuple[str, int]]:
        """The masks called `stem` but for their suffix, and their places."""
        key = np.uint64(_hash(stem))
        start, stop = (np.searchsorted(self._keys, key, side) for side in ("left", "right"))
        masks = ((self._names[place].as_py(), place) for place in self._order[start:stop].tolist())
        return [(mask, place) for mask, place in masks if _stem(mask) == stem]

    def check_used(self, first: str) -> None:
        """Raise a UserError if no image has a mask; `first` is the name of one."""
        if not self._owners.any():
            least, wanted = min(self._names.to_pylist()), _stem(first)
            if self._annotated:
                wanted = _inner_stems(first)[-1]
            raise UserError(
                f"--masks {self._folder}: none of the images has a mask there; that of {first!r} is to be"
                f" called {wanted!r}, with the suffix of an image, and the first there is {least!r}"
            )

    def notices(self) -> list[str]:
        """What must be said of masks that belong to no image, and of folders that cannot be listed."""
        left = sorted(self._names.filter(pa.array(self._owners == 0)).to_pylist())
        said = [f"of --masks {self._folder}, {problem}" for problem in self._unlisted]
        if left:
            names = ", ".join(map(repr, left[:_SHOWN])) + (", …" if len(left) > _SHOWN else "")
            what = "1 mask has" if len(left) == 1 else f"{len(left):,} masks have"
            said.append(f"{what} no image, and {'is' if len(left) == 1 else 'are'} left out: {names}")
        return said


def _stem(name: str) -> str:
    return posixpath.splitext(name)[0]


def _inner_stems(name: str) -> list[str]:
    """The stem of a name, then as it is seen from each of its folders."""
    parts = _stem(name).split("/")
    return ["/".join(parts[start:]) for start in range(len(parts))]


def _key(name: str) -> int:
    return _hash(_stem(name))


def _hash(stem: str) -> int:
    return xxhash.xxh3_64_intdigest(stem.encode())
