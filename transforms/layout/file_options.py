"""What the user said of files that are examples: their splits and labels."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from shardmill.transforms.inputs.file_kind import IMAGES, FileKind
from shardmill.transforms.inputs.folders import FolderRoles
from shardmill.transforms.options.labels import LabelOptions
from shardmill.transforms.options.splits import SplitOptions


@dataclass(frozen=True, slots=True)
class LayoutOptions:
    """What the user said about splits and labels.

    Attributes:
      source: how errors call the input.
      split: how files are dealt out to splits.
      classes: the names there may be.
      split_shards: the splits that `--num_shards` names.
      kind: of the files.
      folders: what their folders mean, as `--folders` says; None where that is guessed.
      root: the folder that names are relative to.
      annotated: whether the objects in images are annotated.
      in_manifest: whether it is the manifest that annotates them.
      numbered: whether the classes of objects are ids, of which nobody says the names.
      separators: what stands between the classes of a manifest's label, by "label"; nothing where it names one.
      file_column: of a manifest, with the names of the files.
      told: what the user must be told of how the input was found.
      splits_by: what says the splits of a manifest's rows.
    """

    source: str
    split: SplitOptions = field(default_factory=SplitOptions)
    classes: LabelOptions = field(default_factory=LabelOptions)
    split_shards: tuple[str, ...] = ()
    kind: FileKind = IMAGES
    folders: FolderRoles | None = None
    root: str = ""
    annotated: bool = False
    in_manifest: bool = False
    numbered: bool = False
    separators: Mapping[str, str] = field(default_factory=dict)
    file_column: str = "file_name"
    told: tuple[str, ...] = ()
    splits_by: str = "the manifest's column 'split'"
