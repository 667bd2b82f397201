"""Find the masks of images in a folder, by their names."""

import os
import re
import shlex
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import xxhash

from shardmill.errors import UserError
from shardmill.metadata.manifest import Reject
from shardmill.text import listed, plural
from shardmill.transforms.columns.arrow import convert_batch
from shardmill.transforms.formats.conventions import describe_foreign_format
from shardmill.transforms.inputs.folders import IMAGES
from shardmill.transforms.inputs.found_files import REVISION, FoundCompanion, MaskPattern, hash_revision, remove_suffix
from shardmill.transforms.inputs.listing import is_unknown_file, list_input, list_singly
from shardmill.transforms.inputs.summary import InputSummary
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import FileStat
from shardmill.transforms.stores.streams import file_identity

_SHOWN = 3  # names of masks without an image
_ROWS = pa.schema([("name", pa.string()), ("size", pa.int64()), ("identity", pa.uint64()), REVISION])


class MaskFolder:
    """The masks below a folder, held in memory at some dozen bytes each; counts which of them no image uses."""

    def __init__(
        self,
        folder: str,
        pattern: str = "",
        inside: str | None = None,
        identities: bool = True,
        annotated: bool = False,
    ) -> None:
        """List the masks, which `pattern` names; raise a UserError if there is no such folder, or no image in it.

        `inside` is the folder's path below the folder of the images, "" for the same folder, None for one elsewhere. If
        annotations name the images (`annotated`), masks need not repeat outer folders such as JPEGImages.
        """
        if storage.is_local(folder) and not os.path.isdir(folder):
            raise UserError(f"--masks {folder}: no such folder")
        self._folder, self._pattern, self._inside = folder, MaskPattern.parse(pattern), inside
        self._needs_identities, self._annotated = identities, annotated
        self._unlisted, self._others = list[str](), list[str]()
        self._first_image: str | None = None  # first image whose mask was looked for
        rows = list(self._list_masks())
        if not rows:
            fits = f" with a name that fits --mask_pattern {pattern}" if pattern else ""
            hint = next(filter(None, map(describe_foreign_format, self._others)), "")
            raise UserError(f"--masks {folder}: there is no image in that folder{fits}{hint}")
        self._masks = convert_batch(list(zip(*rows, strict=True)), _ROWS)
        self._names = self._masks["name"]
        keys = np.fromiter((_hash_stem(name) for name in self._names.to_pylist()), np.uint64, len(rows))
        self._order = np.argsort(keys, kind="stable")
        self._keys = keys[self._order]
        self._owners = np.zeros(len(keys), np.uint64)  # keys of the images that asked for each

    def _list_masks(self) -> Iterator[FoundCompanion]:
        for item in list_singly(list_input(self._folder, IMAGES)):
            if isinstance(item, FileStat):
                if not self._pattern.is_mask(remove_suffix(item.path)):
                    continue
                identity = file_identity(item.size_bytes, item.stamp, item.modified) if self._needs_identities else None
                yield item.path, item.size_bytes, identity, hash_revision(item)
            elif isinstance(item, Reject):
                self._unlisted.append(f"{item.source}: {item.reason}")
            elif is_unknown_file(item.kind):
                self._others.append(item.name)

    def is_among_images(self, name: str) -> bool:
        if self._inside is None or not name.startswith(f"{self._inside}/" if self._inside else ""):
            return False
        return self._pattern.is_mask(remove_suffix(name[len(self._inside) :].lstrip("/")))

    def find(self, name: str, _: int | None = None) -> FoundCompanion | str:
        """Return an image's mask, or why it has none; raise a UserError if images of two folders would share a mask."""
        self._first_image = self._first_image or name
        stems = self._list_stems(name)
        if not stems:
            return f"no mask: its name is not as --mask_pattern {self._pattern} says"
        masks = next(filter(None, map(self._find_by_stem, stems)), [])
        if not masks:
            if self._pattern != MaskPattern():
                return f"no mask: {self._folder} has no {stems[0]!r} with the suffix of an image"
            return f"no mask: {self._folder} has none that is called as the image is, but for the suffix"
        if len(masks) > 1:
            return f"two masks, {masks[0][0]} and {masks[1][0]}: which is it?"
        ((mask, row),) = masks
        key = np.uint64(_hash_stem(name))
        if self._owners[row] not in (0, key):
            raise UserError(
                f"--masks {self._folder}: {mask!r} would be the mask of {name!r} and of an image in another folder;"
                f" masks must be in the same folders as their images: {stems[0]!r}, with the suffix of an image"
            )
        self._owners[row] = key
        return storage.join(self._folder, mask), *(column[row].as_py() for column in self._masks.columns[1:])

    def _list_stems(self, name: str) -> list[str]:
        """Return the names that an image's mask may have, without suffix, with the most folders first."""
        parts = remove_suffix(name).split("/")
        stems = ("/".join(parts[start:]) for start in (range(len(parts)) if self._annotated else (0,)))
        return list(filter(None, map(self._pattern.name_mask, stems)))

    def _find_by_stem(self, stem: str) -> list[tuple[str, int]]:
        """Return the masks whose name without suffix is `stem`, with their row numbers."""
        key = np.uint64(xxhash.xxh3_64_intdigest(stem.encode()))
        start, stop = (np.searchsorted(self._keys, key, side) for side in ("left", "right"))
        masks = ((self._names[row].as_py(), row) for row in self._order[start:stop].tolist())
        return [(mask, row) for mask, row in masks if remove_suffix(mask) == stem]

    def finish(self) -> InputSummary:
        if (image := self._first_image) is None:
            return InputSummary()
        if not self._owners.any():
            if not (stems := self._list_stems(image)):
                raise UserError(f"--mask_pattern {self._pattern}: no image has such a name, for example {image!r}")
            names = sorted(self._names.to_pylist())
            bounded = rf"(?<![^\W_]){re.escape(stems[-1])}(?![^\W_])"
            near = next((stem for stem in map(remove_suffix, names) if re.search(bounded, stem)), "")
            advised = re.sub(bounded, "{stem}", near)
            is_known = self._pattern == MaskPattern() and advised.count("{stem}") == 1
            remedy = f"; give --mask_pattern {shlex.quote(advised)}" if is_known else ""
            raise UserError(
                f"--masks {self._folder}: none of the images has a mask there; the mask of {image!r} must be named"
                f" {stems[-1]!r}, with the suffix of an image; the first file there is {names[0]!r}{remedy}"
            )
        unused = sorted(self._names.filter(pa.array(self._owners == 0)).to_pylist())
        notices = [f"of --masks {self._folder}, {problem}" for problem in self._unlisted]
        if self._others:
            files = plural(len(self._others), "file that is no image is", "files that are no images are")
            notices.append(f"of --masks {self._folder}, {files} passed over, such as {self._others[0]!r}")
        if unused:
            subject = plural(len(unused), "mask has no image, and is", "masks have no image, and are")
            notices.append(f"{subject} left out: {listed(list(map(repr, unused)), _SHOWN, ', …')}")
        return InputSummary(notices=frozenset(notices))


def _hash_stem(name: str) -> int:
    return xxhash.xxh3_64_intdigest(remove_suffix(name).encode())
