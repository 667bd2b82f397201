"""Which files hold the records of an input: those of one folder or glob, or parallel ones of several."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from shardmill.errors import UserError
from shardmill.metadata.rejects import Reject
from shardmill.transforms.formats.base import FileRef
from shardmill.transforms.inputs.file_kind import FileKind
from shardmill.transforms.inputs.folders import SPLIT_FOLDERS, split_of_file
from shardmill.transforms.inputs.listing import Found, Skipped, input_root, list_input
from shardmill.transforms.stores import storage

ListedRef = FileRef | Skipped | Reject


class RecordFiles(ABC):
    """The files of an input."""

    @abstractmethod
    def listed(self, kind: FileKind) -> Iterator[ListedRef]:
        """Everything that is there; the files last, in the order of their names, each with a share of the key space by
        its bytes.

        Raises:
          UserError: it is not known what the files mean.
        """


@dataclass(frozen=True)
class OneInput(RecordFiles):
    """A folder, a file or a glob."""

    pattern: str

    def listed(self, kind: FileKind) -> Iterator[ListedRef]:
        """As the base says."""
        root = input_root(self.pattern)
        found: list[Found] = []
        for item in list_input(self.pattern, kind):
            if isinstance(item, Found):
                found.append(item)
            else:
                yield item
        yield from with_keys(to_refs(found, root))


@dataclass(frozen=True)
class ParallelInput(RecordFiles):
    """Folders, files or globs whose files, in the order of their names, belong together, such as translations.

    Attributes:
      patterns: (name of the feature, folder, file or glob), two at least; the first one's folders are those that say
        splits and classes.
    """

    patterns: tuple[tuple[str, str], ...]

    def listed(self, kind: FileKind) -> Iterator[ListedRef]:
        """As the base says: a file of the first pattern, with those that belong to it as its parts.

        Raises:
          UserError: there are not as many files of each, a file is there twice, or those that would belong together
            bear different splits in their names.
        """
        others: list[tuple[str, Skipped | Reject]] = []
        refs: list[list[FileRef]] = []
        for name, pattern in self.patterns:
            root = input_root(pattern)
            items = list(list_input(pattern, of_language(kind, name)))
            refs.append(to_refs((item for item in items if isinstance(item, Found)), root))
            others += [(storage.join(root, _name(item)), item) for item in items if not isinstance(item, Found)]
        taken = {file.path for files in refs for file in files}
        yield from (item for path, item in others if path not in taken)
        self._check(refs, [item for _, item in others if isinstance(item, Reject)])
        yield from with_keys(_together(parts) for parts in zip(*refs, strict=True))

    def _check(self, refs: Sequence[Sequence[FileRef]], rejects: Sequence[Reject]) -> None:
        said = [f"{name}={pattern}" for name, pattern in self.patterns]
        if len({len(files) for files in refs}) > 1:
            numbers = [f"--input {word} has {len(files):,}" for word, files in zip(said, refs, strict=True)]
            why = f"; {rejects[0].source!r}: {rejects[0].reason}" if rejects else ""
            raise UserError(
                f"{' and '.join(numbers)} files: files are paired in the order of their names, so there must be as many"
                f" of each{why}"
            )
        paths: dict[str, str] = {}
        for word, files in zip(said, refs, strict=True):
            for file in files:
                if file.path in paths:
                    raise UserError(f"--input {paths[file.path]} and {word} both have the file {file.path}")
                paths[file.path] = word
        for parts in zip(*refs, strict=True):
            words = [_split_words(part.name) for part in parts]
            if len(refs[0]) > 1 and len(set(words)) > 1:
                odd = next(index for index, word in enumerate(words) if word != words[0])
                raise UserError(
                    f"files are paired in the order of their names, and {parts[0].name!r} of --input {said[0]} would be"
                    f" paired with {parts[odd].name!r} of {said[odd]}, which bears another split in its name"
                )


def of_language(kind: FileKind, name: str) -> FileKind:
    """What a folder is searched for, and what ends in a language, as `train.de` and `train.de.gz` do."""
    return replace(kind, suffixes=rf"{kind.suffixes}|{re.escape(name)}(?:\.(?:gz|bz2|zst))?")


def to_refs(found: Iterable[Found], root: str) -> list[FileRef]:
    """References to files in the order of their names."""
    files = sorted(found, key=lambda file: file.name)
    return [FileRef(file.name, storage.join(root, file.name), file.size_bytes) for file in files]


def with_keys(refs: Iterable[FileRef]) -> list[FileRef]:
    """The same, each with a share of the key space by its bytes."""
    files = list(refs)
    weights = [file.size_bytes + 1 for file in files]  # an empty one has a share too
    unit = ((1 << 64) - 1) // max(sum(weights), 1)
    starts = accumulate(weights, initial=0)
    return [
        replace(file, key_start=start * unit, key_span=weight * unit)
        for file, weight, start in zip(files, weights, starts, strict=False)
    ]


def _together(parts: Sequence[FileRef]) -> FileRef:
    return replace(parts[0], size_bytes=sum(part.size_bytes for part in parts), parts=tuple(parts))


def _name(item: Skipped | Reject) -> str:
    return item.name if isinstance(item, Skipped) else item.source


def _split_words(name: str) -> tuple[str | None, ...]:
    folders = (SPLIT_FOLDERS.get(part.lower()) for part in name.split("/")[:-1])
    return (*filter(None, folders), split_of_file(name))
