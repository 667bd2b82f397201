"""Publishing as a protocol that anybody can bring to its end: once the journal is written, by what stands in it alone.

    staged      all files of the new version, the metadata too, lie in the job's temporary directory, synced
    journal     `_PUBLISHING` is created; the job must still have the lease of the version directory
    placed      the older `_SUCCESS` goes, then the older files; the new ones are renamed, the manifest last; all is
                synced
    published   `_SUCCESS`
    announced   LATEST; then the temporary directory goes, and the journal last

Each step may be repeated, by the same job or by another that found the journal; what is done is passed over. At no
moment are both versions lost: until the journal is there the older one is whole, and from then on all that the newer
one takes is there.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial

import google_crc32c

from shardmill.errors import CorruptDataError, JobError, LockedError
from shardmill.metadata import naming
from shardmill.metadata.seal import seal
from shardmill.transforms.publishing import build_records, inputs_file, lease
from shardmill.transforms.publishing.job_folder import read_journal
from shardmill.transforms.publishing.journal import Journal, Move
from shardmill.transforms.publishing.latest import announce, parent
from shardmill.transforms.publishing.owner import Owner
from shardmill.transforms.stores import conditional, renames, storage
from shardmill.transforms.stores.stored import ChangedError
from shardmill.transforms.stores.together import together

_READ_BYTES = 8 << 20  # at once


class LostFilesError(JobError):
    """Files that a journal names are nowhere: the publication cannot be brought to its end."""


def begin(directory: str, journal: Journal) -> None:
    """Write the journal of a publication all whose files are staged and synced.

    Raises:
      LockedError: the job has lost its lease.
      JobError: another job publishes, or it failed.
    """
    path = storage.join(directory, naming.PUBLISHING)
    folder = storage.join(directory, journal.temporary)
    try:
        storage.create_text(path, journal.to_json(), storage.join(folder, naming.PUBLISHING))
        held = lease.is_held(directory, journal.job)
        if not held:
            _delete_journal(directory, journal)
    except FileExistsError:
        raise JobError(
            f"another job is publishing {directory}, or was interrupted while it did: nothing of this one was"
            f" published; if that job is dead, `shardmill verify --repair {directory}` completes what it began"
        ) from None
    except OSError as error:
        what = _completes(directory) if storage.exists(path) else "nothing was published"
        raise JobError(f"publishing {directory} failed as it began: {_said(error)}; {what}") from error
    if not held:
        raise LockedError(
            f"another job took the lease of {directory} as this one began to publish; nothing was published"
        )


def complete(directory: str, journal: Journal, job: str = "") -> None:
    """Bring the publication of `journal`, which is in `directory`, to its end from wherever it stopped.

    Args:
      directory: of the version.
      journal: of the publication.
      job: that has the lease of the directory; that of the journal, unless another completes what it began.

    Raises:
      LockedError: yet another has the lease now, and completes it.
      LostFilesError: files are gone; the message says whether an older version stands.
      JobError: an operation failed; the message says what stands and what completes it.
    """
    owner = None
    check_lease = partial(_check_lease, directory, job or journal.job, _completes(directory))
    try:
        sizes = dict(storage.list_files(directory))
        if not _is_published(directory, journal, sizes):
            check_lease()
            _place(directory, journal, sizes)  # nobody else writes there while the lease is held
            manifest = partial(storage.read_bytes, storage.join(directory, naming.MANIFEST))
            _, owner, data = together(directory, partial(_check_placed, directory, journal), check_lease, manifest)
            storage.write_text(storage.join(directory, naming.SUCCESS), seal(data))
    except OSError as error:
        raise JobError(
            f"publishing {directory} was begun but failed: {_said(error)}; {_completes(directory)}"
        ) from error
    _after(directory, "LATEST could not be written", lambda: _announce(directory, journal))
    _after(directory, "temporary files could not be deleted", lambda: _clear(directory, journal))
    if owner is None or owner.detached:
        lease.end_soon(directory, job or journal.job)


def settle(directory: str, journal: Journal, discard: bool, job: str) -> str | None:
    """As `complete`, of what a dead job began; the message of a LostFilesError is returned where something can be done.

    A version that was published before, and whose files were not touched yet, stands; else what is left is deleted if
    `discard`.
    """
    try:
        complete(directory, journal, job)
    except LostFilesError as error:
        if not storage.exists(storage.join(directory, naming.SUCCESS)):
            if not discard:
                raise
            storage.delete(storage.join(directory, name) for name in dataset_files(directory, journal))
        _clear(directory, journal)
        return str(error)
    return None


def folders_of(paths: Iterable[str], above: str) -> list[str]:
    """The folders of files that lie below the folder `above`, and itself, those within others first."""
    found = {above}
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder not in found:
            found.add(folder)
            folder = folder.rpartition("/")[0]
    return sorted(found, reverse=True)


def dataset_files(directory: str, journal: Journal) -> list[str]:
    """The files of a journal's data set in its version directory, but for temporary ones, the journal and LOCK."""
    return _dataset_files((file for file, _ in storage.list_files(directory)), journal)


def _dataset_files(files: Iterable[str], journal: Journal) -> list[str]:
    return [
        file
        for file in files
        if naming.is_dataset_file(file, journal.name, journal.templates)
        and not file.startswith((naming.TEMP_PREFIX, naming.PUBLISHING, naming.LOCK))
    ]


def failed_rejects_path(directory: str, version: str) -> str:
    """Where the rejects of a job that failed for them are written: beside the version directory."""
    return storage.join(parent(directory), f"{version}-rejects.jsonl")


def crc32c_of(path: str) -> str:
    """The crc32c of a file's bytes, as a journal and a manifest have it."""
    crc = 0
    with storage.open_read(path) as file:
        while block := file.read(_READ_BYTES):
            crc = google_crc32c.extend(crc, block)
    return f"{crc:08x}"


def _is_published(directory: str, journal: Journal, sizes: Mapping[str, int]) -> bool:
    """Whether the new version has its `_SUCCESS`: the older one's goes before the first file is renamed."""
    return (
        naming.SUCCESS in sizes
        and not any(move.temporary in sizes for move in journal.moves)
        and all(sizes.get(move.file) == move.size_bytes for move in journal.moves)
        and crc32c_of(storage.join(directory, naming.MANIFEST)) == journal.moves[-1].crc32c
    )


def _place(directory: str, journal: Journal, sizes: Mapping[str, int]) -> None:
    waiting = [move for move in journal.moves if move.temporary in sizes]
    moved = [move for move in journal.moves if move.temporary not in sizes]
    _check_all_there(directory, sizes, waiting, moved)
    if naming.SUCCESS in sizes:
        storage.delete([storage.join(directory, naming.SUCCESS)])
        storage.sync_directories([directory])
    keep = {move.file for move in moved}
    old = [storage.join(directory, name) for name in _dataset_files(sizes, journal) if name not in keep]
    together(directory, partial(inputs_file.forget, directory), partial(storage.delete, old))
    there = {storage.join(directory, move.temporary): move.size_bytes for move in waiting}
    renames.rename(list(there), [storage.join(directory, move.file) for move in waiting], sizes=there)
    for folder in folders_of(old, directory)[:-1]:  # of which no file of the new version may be
        storage.remove_empty(folder)
    paths = [storage.join(directory, move.file) for move in journal.moves]
    storage.sync_directories(folders_of(paths, directory))


def _check_all_there(directory: str, sizes: Mapping[str, int], waiting: Sequence[Move], moved: Sequence[Move]) -> None:
    lost = [move for move in waiting if sizes[move.temporary] != move.size_bytes]
    lost += [move for move in moved if sizes.get(move.file) != move.size_bytes or not _is_new(directory, move)]
    if lost:
        stands = naming.SUCCESS in sizes
        raise LostFilesError(
            f"the publication of {directory} cannot be completed: {len(lost)} of its {len(waiting) + len(moved)} files"
            f" are gone, such as {lost[0].file}, which was {lost[0].temporary}; "
            + ("the version published before stands" if stands else "it is no data set; run its job again")
        )


def _is_new(directory: str, move: Move) -> bool:
    """Whether a file under its final name is the new version's; on object stores, which rename by copying, its size
    says so."""
    path = storage.join(directory, move.file)
    return not storage.is_local(path) or crc32c_of(path) == move.crc32c


def _check_placed(directory: str, journal: Journal) -> None:
    files, found = together(directory, lambda: list(storage.list_files(directory)), partial(_read_journal, directory))
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


def _read_journal(directory: str) -> Journal | None:
    with suppress(CorruptDataError):
        return read_journal(directory)
    return None


def _announce(directory: str, journal: Journal) -> None:
    together(
        directory,
        partial(storage.delete, [failed_rejects_path(directory, journal.version)]),
        partial(inputs_file.put_in_place, directory, journal.temporary),
        partial(build_records.put_in_place, directory, journal.temporary),
    )
    announce(directory, journal.latest, journal.job, journal.set_latest)


def _clear(directory: str, journal: Journal) -> None:
    folder = storage.join(directory, journal.temporary)
    together(directory, partial(storage.delete_tree, folder), partial(storage.abort_uploads, f"{folder}/"))
    _delete_journal(directory, journal)
    storage.sync_directories([directory])


def _delete_journal(directory: str, journal: Journal) -> None:
    """Delete the journal if it is that one: another job's may be there by now."""
    path = storage.join(directory, naming.PUBLISHING)
    found = conditional.read(path)
    with suppress(ChangedError, CorruptDataError):
        if found is not None and Journal.from_json(found.data, path).job == journal.job:
            conditional.delete(path, found)


def _check_lease(directory: str, job: str, what: str) -> Owner:
    try:
        return lease.check(directory, job)
    except LockedError as error:
        raise LockedError(f"{error}; {what}") from None


def _after(directory: str, what: str, step: Callable[[], None]) -> None:
    """Do what follows `_SUCCESS`; raises a JobError that says that it was published."""
    try:
        step()
    except OSError as error:
        raise JobError(f"{directory} is published, but {what}: {_said(error)}; {_completes(directory)}") from error


def _completes(directory: str) -> str:
    return f"the next run, or `shardmill verify --repair {directory}`, completes it"


def _said(error: OSError) -> str:
    said = f"{error.strerror}: {error.filename}" if error.strerror and error.filename else str(error)
    return said or type(error).__name__
