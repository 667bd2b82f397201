"""Further image files of an example, beside the one that it is of: masks, and the other pictures of a pair."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

FOLDER_FEATURE = "mask"
_SUFFIX = "_file_name"  # of a column, which Hugging Face's imagefolder leaves out of the feature's name
# Beside what is found or planned of an image, the paths of its companions, in the order in which they were asked for
COMPANIONS = pa.field("companions", pa.list_(pa.string()))


@dataclass(frozen=True, slots=True)
class Companion:
    """A further file that each example has.

    Attributes:
      feature: what holds it in examples.
      column: of a manifest, that names it; "" where it is found in a folder.
      is_mask: whether it says of each pixel of the image what that is of; else it is a picture of its own.
    """

    feature: str
    column: str = ""
    is_mask: bool = False

    @property
    def what(self) -> str:
        """What errors call it."""
        return f"column {self.column!r}" if self.column else self.feature


IN_FOLDER = Companion(FOLDER_FEATURE, is_mask=True)  # a mask that lies in a folder of masks


def feature_of(column: str) -> str:
    """What the feature of a column of file names is called: as Hugging Face's imagefolder has it, `right` of
    `right_file_name`."""
    return column.removesuffix(_SUFFIX) or column


def columns_of(files: Sequence[str], masks: Sequence[str]) -> tuple[Companion, ...]:
    """The companions that columns of a manifest name."""
    return (
        *(Companion(feature_of(column), column) for column in files),
        *(Companion(feature_of(column), column, True) for column in masks),
    )


def further_files(columns: Sequence[str]) -> tuple[str, ...]:
    """Those of the columns of a metadata file that name further files, by their own names, as Hugging Face's
    imagefolder knows them."""
    return tuple(column for column in columns if column.endswith(_SUFFIX) and column != _SUFFIX)


def with_companions(schema: pa.Schema, companions: Sequence[Companion]) -> pa.Schema:
    """The schema of batches, with their companions if they have any."""
    return schema.append(COMPANIONS) if companions else schema


def paths_of(batch: pa.RecordBatch) -> list[list[str]]:
    """The paths of the companions of each row; none where the batch has none."""
    if COMPANIONS.name not in batch.schema.names:
        return [[]] * len(batch)
    found: list[list[str]] = batch[COMPANIONS.name].to_pylist()
    return found
