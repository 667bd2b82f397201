"""What a format of annotations is to the transform that reads it."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Protocol, Self, runtime_checkable

from shardmill.metadata.rejects import Reject
from shardmill.transforms.inputs.annotations.objects import Annotated, AnnotatedFiles, Member
from shardmill.transforms.inputs.listing import Skipped
from shardmill.transforms.stores import storage


def files_below(root: str, masks: str | None) -> list[str]:
    """The names of all files below a folder, sorted, but for those in the folder `masks`, which are no images.

    Raises:
      OSError: a store failed.
    """
    names = sorted(name for name, _ in storage.list_files(root))
    if masks is None:
        return names
    if storage.is_local(root) and storage.is_local(masks):
        root, masks = os.path.abspath(root), os.path.abspath(masks)
    return [name for name in names if not storage.join(root, name).startswith(storage.join(masks, ""))]


@dataclass(frozen=True, slots=True)
class Listed:
    """An image whose annotation is a file of its own.

    Attributes:
      image: its file's name, relative to the root.
      annotation: its annotation's, likewise.
      place: from 1, among all of them.
      split: None where nothing says it.
    """

    image: str
    annotation: str
    place: int
    split: str | None = None


@dataclass(frozen=True, slots=True)
class Categories:
    """The classes that the file at `path` says there are, in the order of the ids that they have there."""

    names: tuple[str, ...]
    path: str


@dataclass(frozen=True, slots=True)
class Notice:
    """What the user must be told at the end."""

    text: str


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What some annotations say, and no example holds.

    Attributes:
      what: as it is called there.
      annotations: how many say it.
    """

    what: str
    annotations: int


class AnnotationSource(Protocol):
    """Where annotations are, and how they are read.

    Attributes:
      members: what it says of each object.
      columns: what it says of each image, by the names of the features.
    """

    members: ClassVar[tuple[Member, ...]]
    columns: ClassVar[tuple[str, ...]]

    @property
    def root(self) -> str:
        """The folder that names are relative to."""

    def beside(self) -> Iterator[str]:
        """The paths of the files that are read beside images and their own annotations."""

    def listed(self) -> Iterator[AnnotatedFiles | Listed | Categories | LeftOut | Notice | Reject | Skipped]:
        """What there is, on one worker: images with what is in them, or where it says what is in each.

        Raises:
          UserError: there is no such input, or it is none.
          OSError: a store failed.
        """


@runtime_checkable
class AnnotationFiles(Protocol):
    """A source that lists images whose annotations are files of their own."""

    def opened(self) -> Self:
        """The source with all that `parsed` needs, of which a worker calls it once."""

    def parsed(self, data: bytes, listed: Listed) -> Annotated | Reject:
        """An image and what is in it, by the bytes of its annotation's file."""
