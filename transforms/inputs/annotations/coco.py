"""COCO's annotations as a source: the images of one or several files, each with all of its objects."""

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shardmill.errors import UserError
from shardmill.metadata.rejects import Reject
from shardmill.transforms.inputs.annotations.coco_file import CocoFile, CocoImage, read_coco
from shardmill.transforms.inputs.annotations.objects import (
    IMAGE_ID,
    Annotated,
    AnnotatedFiles,
    Member,
    Object,
    lists_of,
)
from shardmill.transforms.inputs.annotations.source import Categories, LeftOut, Notice
from shardmill.transforms.stores import storage

_AT_ONCE = 2_000  # images whose objects are looked for at once: with theirs, an element of some mebibyte
_LOOKED_AT = 20  # images that are looked for in every folder they may be in


@dataclass(frozen=True, slots=True)
class CocoSource:
    """COCO files.

    Attributes:
      files: (split, path) of each; "" where the file's is not said.
      root: the folder that names of images are relative to.
      given_root: whether the user said that.
      file_root: the folder of a file's images as seen from the file's own; "" where that is looked for.
    """

    members: ClassVar[tuple[Member, ...]] = ("area", "bbox", "id", "is_crowd", "label")
    columns: ClassVar[tuple[str, ...]] = (IMAGE_ID,)

    files: tuple[tuple[str, str], ...]
    root: str
    given_root: bool = False
    file_root: str = ""

    def beside(self) -> Iterator[str]:
        """As the protocol says."""
        return (path for _, path in self.files)

    def listed(self) -> Iterator[AnnotatedFiles | Categories | LeftOut | Notice | Reject]:
        """As the protocol says."""
        before = 0
        for split, path in self.files:
            found = read_coco(path)
            yield Categories(tuple(found.categories[number] for number in sorted(found.categories)), path)
            if found.bare:
                yield Notice(f"{path} has no annotations: its {len(found.images):,} images are without objects")
            if found.is_numbered:
                yield Notice(
                    f"{path}: no annotation has an id, so each is numbered by its place there, from 1; pycocotools"
                    " needs ids"
                )
            yield from (LeftOut(what, number) for what, number in found.left_out.items())
            folder = self._folder(found, split, path)
            yield from annotated(found, folder, split or None, before)
            before += len(found.images)

    def _folder(self, found: CocoFile, split: str, path: str) -> str:
        """The folder of a file's images, as seen from the root: that in which one of the first of them is."""
        folders = self._folders(split, path)
        names = [image.name for image in found.images if image.name][:_LOOKED_AT]
        if len(folders) == 1 or not names:
            return folders[0]
        for folder in folders:
            if any(storage.exists(storage.join(self.root, joined(folder, name))) for name in names):
                return folder
        looked = ", ".join(storage.join(self.root, folder) if folder else self.root for folder in folders)
        raise UserError(
            f"--coco {path}: its images, such as {names[0]!r}, were looked for in {looked}; say where they are: --input"
            " FOLDER, or --file_root, their folder as seen from the file's own"
        )

    def _folders(self, split: str, path: str) -> list[str]:
        """Where the images of a file may be, by the names that data sets give their folders."""
        own = posixpath.dirname(path) or "."
        if self.file_root:
            store, _, inner = own.rpartition("://")
            folder = posixpath.normpath(posixpath.join(inner, self.file_root))
            return [seen_from(self.root, f"{store}://{folder}" if store else folder)]
        suffix = posixpath.basename(path).rpartition(".")[0].partition("_")[2]  # of instances_train2017.json
        beside = [name for name in (suffix, split) if name]
        inside = ["", *beside, "images", *(f"images/{name}" for name in beside)]
        above = posixpath.dirname(own) or "."
        starts = [self.root] if self.given_root else [own, *([above] if _is_apart(own) else [])]
        return list(dict.fromkeys(joined(seen_from(self.root, start), name) for start in starts for name in inside))


def annotated(found: CocoFile, folder: str, split: str | None, before: int) -> Iterator[AnnotatedFiles | Reject]:
    """The images of a file with their objects, in its order, then what is said of images that there are not.

    Args:
      found: the file.
      folder: of its images, as seen from the root.
      split: theirs.
      before: how many images other files list before.
    """
    image_ids = np.frombuffer(found.image_ids, np.int64)
    order = np.argsort(image_ids, kind="stable")
    owners = image_ids[order]
    first_of: dict[int, CocoImage] = {}
    for start in range(0, len(found.images), _AT_ONCE):
        part = found.images[start : start + _AT_ONCE]
        wanted = np.array([image.id for image in part], np.int64)
        firsts, lasts = (np.searchsorted(owners, wanted, side) for side in ("left", "right"))
        good, images = [], []
        for index, image in enumerate(part):
            name, place = joined(folder, image.name) if image.name else found.path, before + start + index + 1
            problem = image.problem or _twice(found, image, first_of) or found.problems.get(image.id, "")
            if problem:
                yield Reject(name, place, "index", problem)
                continue
            good.append(index)
            images.append(Annotated(name, place, image.size, split=split, columns={IMAGE_ID: image.id}))
        yield AnnotatedFiles(images, _objects(found, order, firsts[good], lasts[good]))
    yield from _strays(found, owners, order)


def _twice(found: CocoFile, image: CocoImage, first_of: dict[int, CocoImage]) -> str:
    first = first_of.setdefault(image.id, image)
    if first is image:
        return ""
    if first.name == image.name:
        return f"image id {image.id} stands twice in {found.path}"
    raise UserError(
        f"--coco {found.path}: {first.name!r} and {image.name!r} both have the id {image.id}; which of them its"
        " annotations are of cannot be known"
    )


def _objects(
    found: CocoFile, order: NDArray[np.int64], firsts: NDArray[np.int64], lasts: NDArray[np.int64]
) -> pa.ListArray:
    """The objects of images, whose annotations are those from `firsts` to `lasts` in the order of their images."""
    lengths = lasts - firsts
    rows = order[np.repeat(firsts - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())]
    x, y, width, height = np.frombuffer(found.boxes, np.float64).reshape(-1, 4)[rows].T
    numbers, labels = np.unique(np.frombuffer(found.category_ids, np.int64)[rows], return_inverse=True)
    names = pa.array([found.categories[number] for number in numbers.tolist()], pa.string())
    ids, areas = np.frombuffer(found.ids, np.int64)[rows], np.frombuffer(found.areas, np.float64)[rows]
    crowds = np.frombuffer(found.crowds, np.int8)[rows] != 0
    columns = Object(
        label=names.take(pa.array(labels, pa.int64())),
        top=pa.array(y),
        left=pa.array(x),
        bottom=pa.array(y + height),
        right=pa.array(x + width),
        id=pa.array(ids),
        area=pa.array(areas),
        is_crowd=pa.array(crowds),
        is_difficult=pa.nulls(len(rows)),
        is_truncated=pa.nulls(len(rows)),
        pose=pa.nulls(len(rows)),
    )
    return lists_of(columns, lengths)


def _strays(found: CocoFile, owners: np.ndarray, order: np.ndarray) -> Iterator[Reject]:
    """A Reject for each image that annotations name and that is not there, and for each annotation that names none."""
    known = {image.id for image in found.images}
    named, firsts, counts = np.unique(owners, return_index=True, return_counts=True)
    for image_id, first, count in zip(named.tolist(), firsts.tolist(), counts.tolist(), strict=True):
        if image_id not in known:
            one = found.called(int(order[first]))
            what = f"{one} is" if count == 1 else f"{one} and {count - 1:,} more are"
            yield Reject(found.path, None, "index", f"{what} of image {image_id}, which is not among the images")
    for image_id in sorted(found.problems.keys() - known - set(named.tolist())):
        yield Reject(found.path, None, "index", f"{found.problems[image_id]}; its image {image_id} is not there either")
    for problem in found.strays:
        yield Reject(found.path, None, "index", problem)


def coco_root(paths: Sequence[str]) -> str:
    """The folder that the images of COCO files lie below, by where the files are.

    Raises:
      UserError: they have none in common.
    """
    own = [posixpath.dirname(path) or "." for path in paths]
    starts = [(posixpath.dirname(folder) or ".") if _is_apart(folder) else folder for folder in own]
    if len(set(starts)) == 1:
        return starts[0]
    stores = [start.rpartition("://")[0] for start in starts]
    folders = [posixpath.normpath(start.rpartition("://")[2]) for start in starts]
    if len(set(stores)) > 1 or len({folder.startswith("/") for folder in folders}) > 1:
        raise UserError("--coco: the files have no folder in common; give --input, the folder of their images")
    common = posixpath.commonpath(folders) or "."
    return f"{stores[0]}://{common}" if stores[0] else common


def _is_apart(folder: str) -> bool:
    """Whether a folder is called as those that hold annotations alone, beside which the images lie."""
    return posixpath.basename(folder.rstrip("/")).lower() in ("annotations", "annotation")


def joined(folder: str, name: str) -> str:
    """The name of what is called `name` in a folder, "" for the root."""
    return f"{folder}/{name}" if folder and name else folder or name


def seen_from(root: str, folder: str) -> str:
    """A folder as seen from the root: "" for the root itself; raises UserError if it lies elsewhere."""
    if storage.is_local(root):
        root, folder = posixpath.normpath(root), posixpath.normpath(folder)
    root, folder = root.rstrip("/"), folder.rstrip("/")
    if folder == root:
        return ""
    if root == "." and not folder.startswith(("/", "..")):
        return folder
    if not folder.startswith(f"{root}/"):
        raise UserError(f"the images' folder {folder} does not lie in {root}; give --input, what all lie below")
    return folder[len(root) + 1 :]
