"""How a manifest names files, labels and further files."""

from collections.abc import Collection
from dataclasses import dataclass

from shardmill.transforms.inputs.annotations.huggingface import SIDES, ObjectsColumn
from shardmill.transforms.inputs.companions import Companion
from shardmill.transforms.stores import storage

FILE_COLUMNS = ("file_name", "image_uri")
RESERVED = ("image", "filename", "height", "width")  # the features of every image, which a column cannot also be


@dataclass(frozen=True, slots=True)
class ManifestNames:
    """How a manifest made for something else names files and labels.

    Attributes:
      file: the column of files; "" for file_name or image_uri.
      label: the column of labels.
      suffix: what follows the names of files, unless they end so.
      root: the folder that the names are relative to, itself relative to the manifest's.
      separator: what stands between the classes that a label names; "" where it names one.
      companions: the columns that name further files of an example.
      objects: the column that says what is in each image; None where none does.
    """

    file: str = ""
    label: str = "label"
    suffix: str = ""
    root: str = ""
    separator: str = ""
    companions: tuple[Companion, ...] = ()
    objects: ObjectsColumn | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """The columns of which one names the file."""
        return (self.file,) if self.file else FILE_COLUMNS

    def path(self, name: str) -> str:
        """The name of a file as the manifest would have it."""
        suffixed = name if name.lower().endswith(self.suffix.lower()) else f"{name}{self.suffix}"
        return suffixed if not self.root or name.startswith("/") or "://" in name else storage.join(self.root, suffixed)

    def reserved(self, others: Collection[str]) -> tuple[str, ...]:
        """What no further column is called: features that every example has, but for the sides of a picture where these
        are said beside the objects in it."""
        beside = (item.feature for item in self.companions if item.feature != item.column)
        taken = (*others, *(["label"] if self.label != "label" else []), *beside)
        return taken if self.objects is None else tuple(name for name in taken if name not in SIDES)

    def companion(self, item: Companion, name: str) -> str:
        """The name of a further file as the manifest would have it: of another picture it is as that of the first, of a
        mask, whose suffix is another, as it stands."""
        return name if item.is_mask else self.path(name)


USUAL_NAMES = ManifestNames()


def flag_of(item: Companion) -> str:
    """The flag that names the column of a companion."""
    return "--mask_column" if item.is_mask else "--file_column"
