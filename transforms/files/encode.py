"""From references to files to framed examples, whatever the files hold: read, check, reject, serialize. Pure but for
reading."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import pyarrow as pa

from shardmill import example, tfrecord
from shardmill.rejects import Reject
from shardmill.renames import Renames
from transforms.statistics.files import SplitStats
from transforms.stores import storage
from transforms.stores.error_text import error_text
from transforms.stores.failures import raise_if_store_failed
from transforms.writing.source import EncodedChunk

# What a store may say of one file, which it would say again however often it is asked.
_ANSWERS = (FileNotFoundError, PermissionError, IsADirectoryError)


@dataclass(frozen=True, slots=True)
class Encoded:
    """What becomes of one file.

    Attributes:
      value: what is stored of its bytes.
      entries: serialized, of the features that follow its name.
      seen: what statistics are to count beside.
    """

    value: bytes
    entries: bytes = b""
    seen: Any = None


class FileEncoder(ABC):
    """Encodes references as tf.train.Example: the file's value, label, filename, what the kind adds, then a manifest's
    columns.

    A kind of files says what it does with one file, and what it counts.

    Attributes:
      root: the folder that names are relative to.
      feature: the feature of the value, before it is renamed.
      renames: what the features are called.
      refusal: the exception by which the kind refuses a file; its text stands in rejects/.
    """

    root: str
    feature: str
    renames: Renames
    refusal: ClassVar[type[Exception]]

    @abstractmethod
    def encode_file(self, path: str, size: int) -> Encoded:
        """What becomes of the file at `path`; `size` is that of its record, about.

        Raises:
          Exception: the kind's `refusal`: the file is no good.
          OSError: it cannot be read.
        """

    @abstractmethod
    def count(self, files: Sequence[Encoded], labels: Counter[int]) -> SplitStats:
        """The statistics of some files; `labels` are theirs by id."""

    def __call__(self, batch: pa.RecordBatch) -> EncodedChunk:
        """Encode the files of a PLANNED batch, in their order."""
        framed: list[bytes] = []
        rejects: list[Reject] = []
        files: list[Encoded] = []
        labels: Counter[int] = Counter()
        columns = (batch[name].to_pylist() for name in ("name", "size", "uri", "label", "line", "columns"))
        for name, size, uri, label, line, entries in zip(*columns, strict=True):
            path = uri or storage.join(self.root, name)
            try:
                encoded = self.encode_file(path, size)
            except (self.refusal, OSError) as error:
                if isinstance(error, OSError):
                    raise_if_store_failed(error, path, _ANSWERS)
                rejects.append(Reject(name, line, "write", _reason(error)))
                continue
            framed += self._framed(name, encoded, label, entries or b"")
            files.append(encoded)
            if label is not None:
                labels[label] += 1
        return EncodedChunk(b"".join(framed), len(files), rejects, self.count(files, labels))

    def entry_header(self, name: str, size: int) -> bytes:
        """What precedes a value of `size` bytes in its entry: that of a bytes_list."""
        return example.bytes_entry_header(name, size)

    def _framed(self, name: str, encoded: Encoded, label: int | None, entries: bytes) -> tuple[bytes, ...]:
        """The parts of a record; the value, which may be many megabytes, is not copied."""
        filename = example.entry(self.renames("filename"), example.bytes_feature([name.encode()]))
        after = label_entry(label, self.renames) + filename + encoded.entries + entries
        before = self.entry_header(self.renames(self.feature), len(encoded.value))
        before = example.example_header(len(before) + len(encoded.value) + len(after)) + before
        record = (before, encoded.value, after)
        return (tfrecord.header(sum(map(len, record))), *record, tfrecord.footer(record))


@lru_cache(maxsize=4096)
def label_entry(label: int | None, renames: Renames) -> bytes:
    """The entry of a label by id; nothing for none."""
    return b"" if label is None else example.entry(renames("label"), example.int64_feature([label]))


def _reason(error: Exception) -> str:
    """Why a file could not be read, as it will stand in rejects/."""
    if isinstance(error, FileNotFoundError):
        return "no such file: it vanished after it was listed"
    if isinstance(error, OSError):
        return f"cannot be read: {error_text(error)}"
    return str(error)
