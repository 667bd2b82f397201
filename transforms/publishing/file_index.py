"""`<name>/builds/<version>.files/`: what the next build needs of a version to read only files that are new or changed.

An index, a small JSON file, names the pieces, a Parquet file a shard. Both lie beside the version's folder: they hold
times, and what is in the folder is the same bytes whenever it is made. The index is called by the checksum of the
version's manifest, so it is never taken for that of another version's bytes; without it, everything is read.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from shardmill.metadata import naming, seal
from shardmill.metadata.json_values import Value, parse_file
from shardmill.transforms.stores import storage

FORMAT = 1  # raised when a reader of the former format would misread the file
_MAX_KEY = (1 << 64) - 1  # the largest uint64


@dataclass(frozen=True, slots=True)
class IndexedPiece:
    """A shard's piece, see shardmill.transforms.writing.remembered.

    Attributes:
      file: its name in the folder.
      crc32c: of its bytes.
      shard: the name of the shard, in the version's folder.
      low, high: the least and the greatest key in it.
    """

    file: str
    crc32c: int
    shard: str
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class FileIndex:
    """What is remembered of a version's files, and what it took from an older one.

    Attributes:
      root: the folder that names are relative to, absolute.
      seed: of the hashes of names by which files are found.
      encoding: what values depend on beside their files: options, and versions of libraries.
      codec: what manifest.json calls the format of the shards: only from TFRecords as they are, "", can any be taken.
      former: the version from which records were taken; "" if none.
      why: why none could be.
      files: that were to be read or taken.
      reused: that were taken.
      damaged: that should have been taken, but whose records failed their checksums.
      pieces: those of the shards.
    """

    root: str
    seed: int
    encoding: Mapping[str, str]
    codec: str = ""
    former: str = ""
    why: str = ""
    files: int = 0
    reused: int = 0
    damaged: int = 0
    pieces: tuple[IndexedPiece, ...] = ()

    def to_json(self) -> str:
        """The text of the file."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes, name: str) -> "FileIndex":
        """Parse the text of the file called `name`; raises CorruptDataError."""
        return parse_file(text, name, FORMAT, "is no index of files", cls._of)

    @classmethod
    def _of(cls, content: Value) -> "FileIndex":
        return cls(
            root=content["root"].text(),
            seed=content["seed"].integer(0, _MAX_KEY),
            encoding={key: value.text() for key, value in content["encoding"].entries().items()},
            codec=content["codec"].text(),
            former=content["former"].text(),
            why=content["why"].text(),
            files=content["files"].integer(),
            reused=content["reused"].integer(),
            damaged=content["damaged"].integer(),
            pieces=tuple(map(_piece, content["pieces"].items())),
        )

    def said(self) -> str:
        """One sentence: how much was taken from an older version, or why nothing was."""
        if not self.former:
            return f"all {self.files:,} files were read: {self.why}"
        others = ", the others read" if self.read else ", none read"
        return f"{self.reused:,} of {self.files:,} files taken from {self.former}{others}"

    @property
    def read(self) -> int:
        """Files that were read."""
        return self.files - self.reused

    @property
    def notices(self) -> tuple[str, ...]:
        """What the user must be told of the older version; it stands in no manifest, for the new version is the same
        bytes whether any of that is damaged or not."""
        if not self.damaged:
            return ()
        records = "1 record is" if self.damaged == 1 else f"{self.damaged:,} records are"
        return (
            f"{records} damaged in the shards of {self.former}: what should have been taken from there was read again;"
            " `shardmill verify` says more",
        )


def _piece(value: Value) -> IndexedPiece:
    file, shard = value["file"].text(), value["shard"].text()
    if not naming.is_file_name(file) or not naming.is_file_name(shard):
        raise ValueError(f"{file!r} of {shard!r} is no name of a piece of a shard")
    return IndexedPiece(
        file, value["crc32c"].integer(), shard, value["low"].integer(0, _MAX_KEY), value["high"].integer(0, _MAX_KEY)
    )


def files_folder(parent: str, version: str) -> str:
    """The folder of the index and pieces of `version`, of the data set whose versions lie in `parent`."""
    return storage.join(storage.join(parent, naming.BUILDS), f"{version}.files")


def index_name(manifest: bytes | str) -> str:
    """What the index of the version with this manifest, or one of this checksum, is called."""
    return f"index-{manifest if isinstance(manifest, str) else seal.crc32c(manifest)}.json"


def read_index(parent: str, version: str, manifest_crc32c: str = "") -> FileIndex | None:
    """The index of a published version; None if it has none.

    Args:
      parent: the folder of all versions.
      version: that is published.
      manifest_crc32c: of its manifest, which is read without it.

    Raises:
      CorruptDataError: it cannot be read.
      OSError: nor can the version.
    """
    manifest = storage.join(storage.join(parent, version), naming.MANIFEST)
    path = storage.join(files_folder(parent, version), index_name(manifest_crc32c or storage.read_bytes(manifest)))
    try:
        return FileIndex.from_json(storage.read_bytes(path), path)
    except FileNotFoundError:
        return None
