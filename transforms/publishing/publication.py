"""The publication protocol: a journal of renames that any process can complete."""

import json
import re
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial

import google_crc32c

from shardmill.errors import CorruptDataError, JobError, LockedError, describe_damage
from shardmill.metadata import file_names
from shardmill.metadata.manifest import Manifest, success_text
from shardmill.transforms.publishing import build_records, lease
from shardmill.transforms.publishing.catalog import parent_folder, update_latest
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import ChangedError

FORMAT = 1  # raised when what was written before would be misread
_CRC32C = re.compile("[0-9a-f]{8}")


@dataclass(frozen=True, slots=True)
class Move:
    """A file of the new version: its temporary and final name, its size in bytes and its crc32c (8 hex digits)."""

    temporary: str
    file: str
    size_bytes: int
    crc32c: str


@dataclass(frozen=True, slots=True)
class Journal:
    """The content of a publication's journal: the files to rename, so that any process can complete it."""

    job: str  # nonce of the publishing job
    name: str
    version: str
    temporary: str  # the job's directory, in the version directory
    latest: str  # what LATEST named when the publication began, or ""
    moves: tuple[Move, ...]  # all files but `_SUCCESS`, in order of renaming; manifest last
    set_latest: bool = False  # point LATEST at this version even if it names a newer one
    templates: tuple[str, ...] = ()  # file name templates of new and old shards, except the default

    def to_json(self) -> str:
        """Return the text of the journal file. Empty `templates` are omitted, as in journals of older versions."""
        content = {name: value for name, value in asdict(self).items() if value or name != "templates"}
        return json.dumps({"format": FORMAT, **content}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: bytes, path: str) -> "Journal":
        """Parse the journal at `path`; raise CorruptDataError if it is none, or names files of no data set."""
        try:
            content = json.loads(text)
            if content.pop("format") != FORMAT:
                raise CorruptDataError(f"{path} was written by a newer shardmill; complete that publication with it")
            moves = tuple(Move(**move) for move in content.pop("moves"))
            templates = tuple(content.pop("templates", ()))
            journal = cls(**content, moves=moves, templates=templates)
            journal._check()
        except CorruptDataError:
            raise
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise CorruptDataError(f"{path} is not the journal of a publication: {describe_damage(error)}") from None
        return journal

    def _check(self) -> None:
        if self.temporary != file_names.temporary_folder(self.name, self.job) or "/" in self.temporary:
            raise ValueError(f"{self.temporary!r} is not the temporary directory of job {self.job!r}")
        if not file_names.is_dataset_name(self.name):
            raise ValueError(f"{self.name!r} is not the name of a data set")
        if not file_names.is_version(self.version) or not isinstance(self.latest, str):
            raise ValueError(f"{self.version!r} is not a version, or {self.latest!r} not a text")
        if not isinstance(self.set_latest, bool):
            raise TypeError(f"set_latest is {self.set_latest!r}, neither true nor false")
        if not self.moves or self.moves[-1].file != file_names.MANIFEST:
            raise ValueError("its last file is not the manifest")
        names = [move.file for move in self.moves], [move.temporary for move in self.moves]
        if any(len(set(each)) < len(each) for each in names):
            raise ValueError("it names a file twice")
        for template in self.templates:
            if problem := file_names.template_problem(template):
                raise ValueError(f"{template!r} {problem}")
        for move in self.moves:
            self._check_move(move)

    def _check_move(self, move: Move) -> None:
        inside = file_names.is_inside(move.file) and file_names.is_inside(move.temporary)
        if not (inside and self._publishes(move.file) and move.temporary.startswith(f"{self.temporary}/")):
            raise ValueError(f"it renames {move.temporary!r} to {move.file!r}")
        if type(move.size_bytes) is not int or move.size_bytes < 0:
            raise TypeError(f"{move.file!r} has {move.size_bytes!r} bytes")
        if not (isinstance(move.crc32c, str) and _CRC32C.fullmatch(move.crc32c)):
            raise TypeError(f"{move.file!r} has the crc32c {move.crc32c!r}")

    def _publishes(self, file: str) -> bool:
        """Return True if the journal may rename `file`; `_SUCCESS` and the journal itself have steps of their own."""
        is_temporary = file.startswith(file_names.TEMP_PREFIX) or file.endswith(file_names.TEMP_SUFFIX)
        if is_temporary or file in (file_names.SUCCESS, file_names.PUBLISHING, file_names.LOCK):
            return False
        return file_names.is_dataset_file(file, self.name, self.templates)


def delete_unpublished(directory: str, folder: str) -> bool:
    """Delete the folder of a job without a lease, unless its publication has begun; return True if it is gone."""
    with suppress(CorruptDataError):
        journal = read_journal(directory)
        if journal is None or journal.temporary != folder:
            storage.delete_tree(storage.join(directory, folder))
            storage.abort_uploads(storage.join(directory, f"{folder}/"))
            return True
    return False


def delete_other_folders(directory: str, own: str) -> None:
    """Delete the folders of all other jobs; the job with the folder `own` has the lease."""
    for folder in storage.list_folders(directory):
        if folder.startswith(file_names.TEMP_PREFIX) and folder != own:
            delete_unpublished(directory, folder)


DELETION = "deletion"  # in the names of temporary folders of those who delete


def delete_remains(directory: str) -> bool:
    """Delete LOCK and the temporary folders of jobs that have ended; return False if a job has the lease."""
    job = uuid.uuid4().hex
    folder = file_names.temporary_folder(DELETION, job)
    with suppress(LockedError), lease.hold_lease(directory, folder, job):
        delete_other_folders(directory, folder)
        return True
    return False


def is_under_way(directory: str) -> bool:
    """Return True if, as far as is known, a job builds or publishes a version, or its publication was interrupted."""
    return storage.exists(storage.join(directory, file_names.PUBLISHING)) or lease.is_maybe_building(directory)


def read_templates(directory: str, names: Collection[str]) -> set[str]:
    """Return the shards' name templates in a version's manifest and journal, if in `names` and readable."""
    found: set[str] = set()
    with suppress(CorruptDataError, FileNotFoundError):
        if file_names.PUBLISHING in names and (journal := read_journal(directory)) is not None:
            found |= set(journal.templates)
    with suppress(CorruptDataError, FileNotFoundError):
        if file_names.MANIFEST in names:
            path = storage.join(directory, file_names.MANIFEST)
            found.add(Manifest.from_json(storage.read_bytes(path), path).file_template)
    return found


def read_journal(directory: str) -> Journal | None:
    """Return the journal in a version directory, or None without one; raise CorruptDataError if it is damaged."""
    path = storage.join(directory, file_names.PUBLISHING)
    try:
        return Journal.from_json(storage.read_bytes(path), path)
    except FileNotFoundError:
        return None


_READ_BYTES = 8 << 20  # at once


class LostFilesError(JobError):
    """Files that a journal names are missing, so the publication cannot be completed."""


def begin_publication(directory: str, journal: Journal) -> None:
    """Write the journal of a publication whose files are all staged and synced.

    Raise a LockedError if the job has lost its lease. Raise a JobError if another job publishes, or writing failed.
    """
    path = storage.join(directory, file_names.PUBLISHING)
    folder = storage.join(directory, journal.temporary)
    try:
        storage.create_text(path, journal.to_json(), storage.join(folder, file_names.PUBLISHING))
        is_held = lease.is_lease_held(directory, journal.job)
        if not is_held:
            _delete_journal(directory, journal)
    except FileExistsError:
        raise JobError(
            f"another job is publishing {directory}, or was interrupted while it did: nothing of this one was"
            f" published; if that job is dead, `shardmill verify --repair {directory}` completes what it began"
        ) from None
    except OSError as error:
        what = _suggest_completion(directory) if storage.exists(path) else "nothing was published"
        raise JobError(f"publishing {directory} failed as it began: {_format_error(error)}; {what}") from error
    if not is_held:
        raise LockedError(
            f"another job took the lease of {directory} as this one began to publish; nothing was published"
        )


def complete_publication(directory: str, journal: Journal, job: str = "") -> None:
    """Complete the publication of `journal` in `directory`, from wherever it stopped.

    Args:
        job: the job that has the lease of the directory; the journal's job, unless another completes its publication.

    Raises:
        LockedError: if yet another job has the lease now, and completes it.
        LostFilesError: if files are missing; the message says if an older version is still published.
        JobError: if an operation failed; the message says what is published and what completes it.
    """
    owner = None
    check_lease = partial(lease.check_lease, directory, job or journal.job, _suggest_completion(directory))
    try:
        sizes = dict(storage.list_files(directory))
        if not _is_published(directory, journal, sizes):
            check_lease()
            _move_into_place(directory, journal, sizes)  # nobody else writes there while the lease is held
            manifest = partial(storage.read_bytes, storage.join(directory, file_names.MANIFEST))
            _, owner, data = storage.run_concurrently(
                directory, partial(_check_placed, directory, journal), check_lease, manifest
            )
            storage.write_text(storage.join(directory, file_names.SUCCESS), success_text(data))
    except OSError as error:
        problem = f"publishing {directory} was begun but failed: {_format_error(error)}"
        raise JobError(f"{problem}; {_suggest_completion(directory)}") from error
    _run_after_success(directory, "LATEST could not be written", lambda: _update_names(directory, journal))
    _run_after_success(directory, "temporary files could not be deleted", lambda: _delete_temporary(directory, journal))
    if owner is None or owner.detached:
        lease.shorten_lease(directory, job or journal.job)


def complete_or_undo(directory: str, journal: Journal, discard: bool, job: str) -> str | None:
    """Complete a dead job's publication, or undo it if files are missing; then return the LostFilesError's message.

    A previously published version whose files are untouched is kept. Otherwise the remaining files are deleted if
    `discard`, else the error is raised.
    """
    try:
        complete_publication(directory, journal, job)
    except LostFilesError as error:
        if not storage.exists(storage.join(directory, file_names.SUCCESS)):
            if not discard:
                raise
            names = _filter_dataset_files((file for file, _ in storage.list_files(directory)), journal)
            storage.delete(storage.join(directory, name) for name in names)
        _delete_temporary(directory, journal)
        return str(error)
    return None


def list_folders_of(paths: Iterable[str], above: str) -> list[str]:
    """Return the folders of files below the folder `above`, and `above` itself, inner folders first."""
    found = {above}
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder not in found:
            found.add(folder)
            folder = folder.rpartition("/")[0]
    return sorted(found, reverse=True)


def _filter_dataset_files(files: Iterable[str], journal: Journal) -> list[str]:
    """Return those of `files` that are of a journal's data set, except temporary files, the journal and LOCK."""
    return [
        file
        for file in files
        if file_names.is_dataset_file(file, journal.name, journal.templates)
        and not file.startswith((file_names.TEMP_PREFIX, file_names.PUBLISHING, file_names.LOCK))
    ]


def crc32c_of(path: str) -> str:
    """Return the crc32c of a file's bytes, as in journals and manifests."""
    crc = 0
    with storage.open_read(path) as file:
        while block := file.read(_READ_BYTES):
            crc = google_crc32c.extend(crc, block)
    return f"{crc:08x}"


def _is_published(directory: str, journal: Journal, sizes: Mapping[str, int]) -> bool:
    """Return True if the new version has its `_SUCCESS`: the old one is deleted before the first file is renamed."""
    return (
        file_names.SUCCESS in sizes
        and not any(move.temporary in sizes for move in journal.moves)
        and all(sizes.get(move.file) == move.size_bytes for move in journal.moves)
        and crc32c_of(storage.join(directory, file_names.MANIFEST)) == journal.moves[-1].crc32c
    )


def _move_into_place(directory: str, journal: Journal, sizes: Mapping[str, int]) -> None:
    waiting = [move for move in journal.moves if move.temporary in sizes]
    moved = [move for move in journal.moves if move.temporary not in sizes]
    _check_files_exist(directory, sizes, waiting, moved)
    if file_names.SUCCESS in sizes:
        storage.delete([storage.join(directory, file_names.SUCCESS)])
        storage.sync_directories([directory])
    keep = {move.file for move in moved}
    old = [storage.join(directory, name) for name in _filter_dataset_files(sizes, journal) if name not in keep]
    storage.delete([build_records.inputs_path_of(directory), *old])
    there = {storage.join(directory, move.temporary): move.size_bytes for move in waiting}
    storage.rename(list(there), [storage.join(directory, move.file) for move in waiting], sizes=there)
    for folder in list_folders_of(old, directory)[:-1]:  # of which no file of the new version may be
        storage.remove_empty(folder)
    paths = [storage.join(directory, move.file) for move in journal.moves]
    storage.sync_directories(list_folders_of(paths, directory))


def _check_files_exist(
    directory: str, sizes: Mapping[str, int], waiting: Sequence[Move], moved: Sequence[Move]
) -> None:
    missing = [move for move in waiting if sizes[move.temporary] != move.size_bytes]
    missing += [move for move in moved if sizes.get(move.file) != move.size_bytes or not _is_new_file(directory, move)]
    if missing:
        unchanged, lost = "the version published before is unchanged", "it is no data set; run its job again"
        outcome = unchanged if file_names.SUCCESS in sizes else lost
        raise LostFilesError(
            f"the publication of {directory} cannot be completed: {len(missing)} of its {len(waiting) + len(moved)}"
            f" files are gone, such as {missing[0].file}, which was {missing[0].temporary}; {outcome}"
        )


def _is_new_file(directory: str, move: Move) -> bool:
    """Return True if a file in the version's folder is the new version's; object stores copy, so its size suffices."""
    path = storage.join(directory, move.file)
    return not storage.is_local(path) or crc32c_of(path) == move.crc32c


def _check_placed(directory: str, journal: Journal) -> None:
    files, found = storage.run_concurrently(
        directory, lambda: list(storage.list_files(directory)), partial(_read_journal_if_valid, directory)
    )
    sizes = dict(files)
    for move in journal.moves:
        if sizes.get(move.file) != move.size_bytes:
            raise JobError(
                f"{move.file} has {sizes.get(move.file)} bytes, but {move.size_bytes} were written: does another job"
                f" write to {directory}? It is no data set now"
            )
    if found is not None and found.job == journal.job:
        return
    raise JobError(f"another job has begun to publish {directory}; this one has left it to that one")


def _read_journal_if_valid(directory: str) -> Journal | None:
    with suppress(CorruptDataError):
        return read_journal(directory)
    return None


def _update_names(directory: str, journal: Journal) -> None:
    inputs = storage.join(directory, journal.temporary, build_records.STAGED_INPUTS)
    storage.run_concurrently(
        directory,
        partial(storage.delete, [storage.join(parent_folder(directory), f"{journal.version}-rejects.jsonl")]),
        partial(storage.put_in_place, inputs, build_records.inputs_path_of(directory)),
        partial(build_records.place_record, directory, journal.temporary),
    )
    update_latest(directory, journal.latest, journal.job, journal.set_latest)


def _delete_temporary(directory: str, journal: Journal) -> None:
    folder = storage.join(directory, journal.temporary)
    storage.run_concurrently(
        directory, partial(storage.delete_tree, folder), partial(storage.abort_uploads, f"{folder}/")
    )
    _delete_journal(directory, journal)
    storage.sync_directories([directory])


def _delete_journal(directory: str, journal: Journal) -> None:
    path = storage.join(directory, file_names.PUBLISHING)
    found = storage.read(path)
    with suppress(ChangedError, CorruptDataError):
        if found is not None and Journal.from_json(found.data, path).job == journal.job:
            storage.delete_if_unchanged(path, found)


def _run_after_success(directory: str, what: str, step: Callable[[], None]) -> None:
    try:
        step()
    except OSError as error:
        problem = f"{what}: {_format_error(error)}"
        raise JobError(f"{directory} is published, but {problem}; {_suggest_completion(directory)}") from error


def _suggest_completion(directory: str) -> str:
    return f"the next run, or `shardmill verify --repair {directory}`, completes it"


def _format_error(error: OSError) -> str:
    message = f"{error.strerror}: {error.filename}" if error.strerror and error.filename else str(error)
    return message or type(error).__name__
