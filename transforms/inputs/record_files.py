"""Choose the files that hold the records of an input: one folder, or several parallel inputs."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from shardmill.errors import UserError
from shardmill.metadata.manifest import Reject
from shardmill.transforms.formats.format import FileRef
from shardmill.transforms.inputs.folders import SPLIT_FOLDERS, FileKind, split_of_file
from shardmill.transforms.inputs.listing import FoundFile, Skipped, input_root, list_input
from shardmill.transforms.stores import storage


@dataclass(frozen=True)
class RecordFiles:
    """The record files of an input: a folder, file or glob, or several whose files are paired in order of their names.

    Paired files are, for example, translations.
    """

    # (feature, folder, file or glob) of each; the first's folders give splits and classes; ("", pattern) if it is alone
    patterns: tuple[tuple[str, str], ...]

    def list_files(self, kind: FileKind) -> Iterator[FileRef | Skipped | Reject]:
        """List the input; the files come last, ordered by name, with shares of the key space by their bytes.

        Paired files are parts of the first pattern's; a UserError is raised if they do not match.
        """
        others: list[tuple[str, Skipped | Reject]] = []
        refs: list[list[FileRef]] = []
        for name, pattern in self.patterns:
            root = input_root(pattern)
            items = list(list_input(pattern, accept_language_suffix(kind, name) if name else kind))
            refs.append(to_refs((item for item in items if isinstance(item, FoundFile)), root))
            others += [(storage.join(root, _name(item)), item) for item in items if not isinstance(item, FoundFile)]
        taken = {file.path for files in refs for file in files}
        yield from (item for path, item in others if path not in taken)
        if len(refs) == 1:
            yield from assign_key_shares(refs[0])
            return
        self._check(refs, [item for _, item in others if isinstance(item, Reject)])
        pairs = zip(*refs, strict=True)
        yield from assign_key_shares(
            replace(parts[0], size_bytes=sum(part.size_bytes for part in parts), parts=parts) for parts in pairs
        )

    def _check(self, refs: Sequence[Sequence[FileRef]], rejects: Sequence[Reject]) -> None:
        inputs = [f"{name}={pattern}" for name, pattern in self.patterns]
        if len({len(files) for files in refs}) > 1:
            numbers = [f"--input {word} has {len(files):,}" for word, files in zip(inputs, refs, strict=True)]
            reason = f"; {rejects[0].source!r}: {rejects[0].reason}" if rejects else ""
            raise UserError(
                f"{' and '.join(numbers)} files: files are paired in the order of their names, so there must be as many"
                f" of each{reason}"
            )
        paths: dict[str, str] = {}
        for word, files in zip(inputs, refs, strict=True):
            for file in files:
                if file.path in paths:
                    raise UserError(f"--input {paths[file.path]} and {word} both have the file {file.path}")
                paths[file.path] = word
        for parts in zip(*refs, strict=True):
            words = [_split_words(part.name) for part in parts]
            if len(refs[0]) > 1 and len(set(words)) > 1:
                mismatch = next(index for index, word in enumerate(words) if word != words[0])
                raise UserError(
                    f"files are paired in the order of their names, and {parts[0].name!r} of --input {inputs[0]}"
                    f" would be paired with {parts[mismatch].name!r} of {inputs[mismatch]}, which bears another split"
                    " in its name"
                )


def accept_language_suffix(kind: FileKind, name: str) -> FileKind:
    """Return the file kind extended by names that end in a language, such as `train.de` and `train.de.gz`."""
    return replace(kind, suffixes=rf"{kind.suffixes}|{re.escape(name)}(?:\.(?:gz|bz2|zst))?")


def to_refs(found: Iterable[FoundFile], root: str) -> list[FileRef]:
    """Return references to files, ordered by name."""
    files = sorted(found, key=lambda file: file.name)
    return [FileRef(file.name, storage.join(root, file.name), file.size_bytes) for file in files]


def assign_key_shares(refs: Iterable[FileRef]) -> list[FileRef]:
    """Return the references with shares of the key space in proportion to their bytes."""
    files = list(refs)
    weights = [file.size_bytes + 1 for file in files]  # an empty one has a share too
    unit = ((1 << 64) - 1) // max(sum(weights), 1)
    starts = accumulate(weights, initial=0)
    return [
        replace(file, key_start=start * unit, key_span=weight * unit)
        for file, weight, start in zip(files, weights, starts, strict=False)
    ]


def _name(item: Skipped | Reject) -> str:
    return item.name if isinstance(item, Skipped) else item.source


def _split_words(name: str) -> tuple[str | None, ...]:
    folders = (SPLIT_FOLDERS.get(part.lower()) for part in name.split("/")[:-1])
    return (*filter(None, folders), split_of_file(name))
