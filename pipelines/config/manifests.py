"""What a user says of manifests: which there are, and how they name files and labels."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from shardmill.errors import UserError
from shardmill.transforms.options.declare import Options, flag
from shardmill.transforms.options.manifests import parse_manifests

if TYPE_CHECKING:
    from shardmill.transforms.inputs.manifests.given import ManifestFile


def _or_none(text: str) -> str | None:
    return text or None


@dataclass(frozen=True, kw_only=True)
class ManifestOptions(Options):
    """Lists of files."""

    title: ClassVar[str] = "input"

    manifest: tuple[tuple[str, str], ...] = flag(
        (),
        "a .csv, .jsonl or .parquet with file_name or image_uri, and label, split and further columns; a glob, or one"
        " for each split; repeat",
        parse=parse_manifests,
        repeats=True,
        metavar="[SPLIT=]FILE",
        shapes=False,
    )
    allow_outside: bool = flag(False, "files of a manifest may lie outside its folder, by their names or by links")
    file_column: str = flag(
        "",
        "of a manifest: names the files; of images left,right,…, each after the first a further image of its example",
        default_words="file_name or image_uri",
        to_json=_or_none,
    )
    label_column: str = flag("label", "of a manifest: holds the labels")
    label_separator: str | None = flag(
        None, "of a manifest: between the classes in a label that names several", group="labels", told=False
    )
    file_suffix: str = flag("", "what a manifest's file names lack, such as .jpg", to_json=_or_none)
    file_root: str = flag(
        "", "the folder of a manifest's files, as seen from its own, such as train/", to_json=_or_none
    )

    def check_manifest_names(self) -> None:
        """Check the names that are given of columns and files; a folder may have said some of them, so that it is not
        done before that is known.

        Raises:
          UserError: one of them is none, or means something else.
        """
        from shardmill.transforms.inputs.manifests.names import FILE_COLUMNS

        if self.label_separator is not None and not self.label_separator.strip():
            raise UserError(
                f"--label_separator {self.label_separator!r}: expected what stands between classes, such as ';' or '|'"
            )
        if self.label_column in self.file_columns or self.label_column in ("", "split", *FILE_COLUMNS):
            raise UserError(f"--label_column {self.label_column!r}: expected a column of its own")
        for column in self.file_columns:
            if column in ("label", "split"):
                raise UserError(f"--file_column {column}: that column says something else; expected one of its own")
        if "/" in self.file_suffix:
            raise UserError(
                f"--file_suffix {self.file_suffix}: expected the end of a name, such as .jpg; --file_root is for"
                " folders"
            )

    @property
    def file_columns(self) -> tuple[str, ...]:
        """The columns that name files, that of the example's own first; () for the usual one alone."""
        return tuple(self.file_column.split(",")) if self.file_column else ()

    @cached_property
    def manifests(self) -> "tuple[ManifestFile, ...]":
        """The manifests that files and globs name; raises UserError where a glob matches none."""
        from shardmill.transforms.inputs.manifests.formats import is_textual
        from shardmill.transforms.inputs.manifests.given import find_manifests

        found = find_manifests(self.manifest)
        for manifest in found:
            is_textual(manifest.path)
        return found
