"""List the files below a folder, matching a glob or in an object store, with those skipped and why."""

import errno
import fnmatch
import glob
import itertools
import os
import posixpath
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from shardmill.errors import UserError
from shardmill.metadata import file_names
from shardmill.metadata.manifest import Reject
from shardmill.text import listed
from shardmill.transforms.formats.format import FileRef
from shardmill.transforms.inputs.folders import IMAGES, SPLIT_FOLDERS, FileKind, split_of_file
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.clients import object_store
from shardmill.transforms.stores.protocol import TIME_STAMP, FileStat, error_text
from shardmill.transforms.stores.storage import raise_if_store_failed

# The kind of a choice of a glob, such as a day of a window, that no file is there for
NO_MATCH = "choice without a file"
OF_DATA_SET = "output file that shardmill wrote"
_NO_EXCLUSION = "--exclude pattern without a file"
METADATA_NAMES = ("metadata.csv", "metadata.jsonl", "metadata.parquet")
# Folders that systems keep next to files: thumbnails and recycle bins of Synology and QNAP, archives of macOS, Windows
SYSTEM_FOLDERS = frozenset(
    (
        *("@eaDir", "@Recycle", "@Recently-Snapshot", "#recycle", "#snapshot", "__MACOSX", "lost+found"),
        *("$RECYCLE.BIN", "System Volume Information"),
    )
)
# Files about a data set, and those that systems keep next to files
_CLUTTER = re.compile(
    r"(?is)(?:readme|licen[cs]es?(?![a-z_]))(?!.*\.(?:[ct]sv|json.*|xml|parquet|xlsx|mat|np[yz]|pkl|h5|zip|tar)\Z)"
    r"|.*\.(?:md|pdf)\Z|(?:thumbs\.db|desktop\.ini)\Z"
)
_README = re.compile(r"(?:readme|licen[cs]e)(?:(?:\.[^.]*)?\.(?:txt|text))?", re.IGNORECASE)  # no text to convert
_EMPTY_FOLDER = "folder without "
NO_SUFFIX = "file without suffix"
_OWN_NAME = "internal file whose name begins with _"
# Names of files that are no TFRecords, whose first bytes are not read
_OTHER_FILES = re.compile(
    rf"\.(?:{IMAGES.suffixes}|jsonl?|csv|tsv|txt|md|pbtxt|pb|ya?ml|xml|py|html|parquet|npy|zip)\Z", re.I
)
_FILES_AT_ONCE = 1_000  # of a folder
_MAX_DEPTH = 500  # of folders: what Python's stack has room for
_CHOICE = re.compile(r"\{([^{}]*,[^{}]*)\}")
_WILDCARD = re.compile(rf"[*?[]|{_CHOICE.pattern}")


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """Files of one local folder, in columns: an object a file takes as long as finding the file."""

    names: list[str]  # relative to the input's root, with / between parts
    statuses: np.ndarray  # int64, (files, 3): size in bytes, time of the last write in ns, inode

    def __iter__(self) -> Iterator[FileStat]:
        for name, (size, mtime_ns, inode) in zip(self.names, self.statuses.tolist(), strict=True):
            seconds, rest = divmod(mtime_ns, 10**9)
            yield FileStat(name, size, f"{TIME_STAMP}{mtime_ns}", seconds + 1e-9 * rest, inode)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file or folder that is not part of the input, with the kind of thing it is."""

    name: str
    kind: str


ListingItem = FileStat | Skipped | Reject  # the paths of files are relative to the input's root


def is_glob(pattern: str) -> bool:
    """Return True if `pattern` has wildcards and is not itself the name of a local file or folder."""
    if not _WILDCARD.search(pattern):
        return False
    return not (storage.is_local(pattern) and os.path.exists(pattern))


def input_root(pattern: str) -> str:
    """Return the folder that names are relative to.

    It is `pattern` itself if that is a folder, the folder of a file, or the part of a glob before its first wildcard.
    """
    if not is_glob(pattern):
        if is_file(pattern):
            return posixpath.dirname(pattern) or "."
        return pattern.rstrip("/") or "/"
    before = pattern[: _first_wildcard(pattern)]
    return before.rpartition("/")[0] or ("/" if pattern.startswith("/") else ".")


def is_file(path: str) -> bool:
    """Return True if `path`, which has no wildcards, is a file.

    In an object store, the object must exist, be non-empty and have a suffix: some tools mark a folder by an empty
    object of its name.
    """
    if storage.is_local(path):
        return os.path.isfile(path)
    _, _, name = path.partition("://")[2].partition("/")
    if not posixpath.splitext(name)[1]:
        return False
    try:
        return storage.size(path) > 0
    except FileNotFoundError:
        return False


def _first_wildcard(pattern: str) -> int:
    match = _WILDCARD.search(pattern)
    return len(pattern) if match is None else match.start()


def expand_choices(pattern: str) -> list[str]:
    """Expand the choices of a glob: `a/{b,c}/*` to `a/b/*` and `a/c/*`."""
    match = _CHOICE.search(pattern)
    if match is None:
        return [pattern]
    options = (f"{pattern[: match.start()]}{option}{pattern[match.end() :]}" for option in match[1].split(","))
    return list(dict.fromkeys(pattern for option in options for pattern in expand_choices(option)))


@contextmanager
def report_unreadable_flag_file(flag: str, path: str) -> Iterator[None]:
    """Within this context, raise a UserError if the file that a flag names cannot be read."""
    try:
        yield
    except FileNotFoundError:
        raise UserError(f"{flag} {path}: no such file") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{flag} {path} is not UTF-8 from byte {error.start + 1} on; save it as UTF-8") from None
    except OSError as error:
        raise_if_store_failed(error, path)
        raise UserError(f"{flag} {path} cannot be read: {error_text(error)}") from None


def read_flag_text(flag: str, path: str) -> str:
    """Return the text of the file that a flag names; raise a UserError if it cannot be read, or is not UTF-8."""
    with report_unreadable_flag_file(flag, path):
        return storage.read_bytes(path).decode("utf-8-sig")


def list_singly(listing: Iterable[FoundFiles | ListingItem]) -> Iterator[ListingItem]:
    """Yield the files and further items of a listing one by one."""
    return itertools.chain.from_iterable(item if isinstance(item, FoundFiles) else (item,) for item in listing)


def list_input(pattern: str, kind: FileKind = IMAGES) -> Iterator[FoundFiles | ListingItem]:
    """List everything that `pattern`, a folder or a glob, holds; of a folder, the files of one kind.

    Each choice of a glob may be a folder, a file or a glob. A file that two choices match is listed once; a choice that
    matches nothing is Skipped. So is each file that the kind excludes, and a pattern of --exclude that matches nothing.
    So is each file of a data set of shardmill in a folder below the root.
    """
    listing = _list_patterns(pattern, kind)
    if not kind.is_listable:  # a data set holds no images, arrays or sounds
        listing = _pass_over_data_sets(list_singly(listing), input_root(pattern))
    if kind.used:
        root, *named = (os.path.abspath(p) if storage.is_local(p) else p for p in (input_root(pattern), *kind.used))
        listing = (item for item in listing if not _is_used(item, root, named))
    if not kind.exclude:
        yield from listing
        return
    unused = dict.fromkeys(kind.exclude)
    for item in list_singly(listing):
        if (found := find_exclusion(name := _name_of(item), kind.exclude)) is None:
            yield item
        elif not isinstance(item, Skipped) or not item.kind.startswith(_EMPTY_FOLDER):
            unused.pop(found, None)
            yield Skipped(name, f"file that --exclude {found} leaves out")
    yield from (Skipped(exclusion, _NO_EXCLUSION) for exclusion in unused)


def find_names(listing: Iterable[FoundFiles | ListingItem]) -> list[str]:
    """Return the sorted names of the files in a listing."""
    return sorted(item.path for item in list_singly(listing) if isinstance(item, FileStat))


def _name_of(item: ListingItem) -> str:
    return item.source if isinstance(item, Reject) else item.name if isinstance(item, Skipped) else item.path


def _is_used(item: FoundFiles | ListingItem, root: str, used: Collection[str]) -> bool:
    return isinstance(item, Skipped) and is_unknown_file(item.kind) and storage.join(root, item.name) in used


# Names of files that a data set may hold: of no others is the folder looked at
_OF_DATA_SET = re.compile(
    r"tfrecord|array_record|(?:^|/)(?:rejects|builds|failed)/|-rejects\.jsonl$|\.labels\.txt$|\.pbtxt$"
    r"|(?:^|/)(?:manifest|stats|features|dataset_info|transform)\.json$"
)


def _pass_over_data_sets(listing: Iterable[ListingItem], root: str) -> Iterator[ListingItem]:
    """Yield the listing with each file in a data set's folder below `root` as Skipped."""
    known: dict[str, bool] = {"": False}  # by folder
    for item in listing:
        if isinstance(item, FileStat) and _OF_DATA_SET.search(item.path):
            folder = posixpath.dirname(item.path)
            if _is_in_data_set(folder, root, known):
                yield Skipped(item.path, OF_DATA_SET)
                continue
        yield item


def _is_in_data_set(folder: str, root: str, known: dict[str, bool]) -> bool:
    if folder not in known:
        path = storage.join(root, folder)
        is_version = all(storage.exists(storage.join(path, name)) for name in (file_names.SUCCESS, file_names.MANIFEST))
        known[folder] = (
            _is_in_data_set(posixpath.dirname(folder), root, known)
            or is_version
            or storage.exists(storage.join(path, file_names.LATEST))
        )
    return known[folder]


def find_exclusion(name: str, patterns: Iterable[str]) -> str | None:
    """Return the first pattern that matches a file, or a folder that it is in; None if none does.

    As in .gitignore, a pattern without a slash matches a file or folder at any level. A slash at its end does not
    count. Any other pattern is relative to the root.
    """
    parts = name.split("/")
    for pattern in patterns:
        wanted = pattern.strip("/").split("/")
        anywhere = "/" not in pattern.rstrip("/")
        if anywhere and any(fnmatch.fnmatchcase(part, wanted[0]) for part in parts):
            return pattern
        if not anywhere and any(matches_glob(parts[:depth], wanted) for depth in range(1, len(parts) + 1)):
            return pattern
    return None


def _list_patterns(pattern: str, kind: FileKind) -> Iterator[FoundFiles | ListingItem]:
    root = input_root(pattern)
    patterns = expand_choices(pattern) if is_glob(pattern) else [pattern]
    if len(patterns) == 1:
        yield from _list_one(pattern, root, kind)
        return
    starts = sorted(choice[: _first_wildcard(choice)] for choice in patterns)
    # Patterns match no file together if their fixed beginnings differ, as those of days do
    may_overlap = any(later.startswith(earlier) for earlier, later in itertools.pairwise(starts))
    seen: set[str] | None = set() if may_overlap else None
    for choice in patterns:
        silent = True
        listing = _list_choice(choice, root, kind)
        for item in listing if seen is None else list_singly(listing):
            silent = False
            if isinstance(item, FileStat) and seen is not None:
                if item.path in seen:
                    continue
                seen.add(item.path)
            yield item
        if silent:
            name = os.path.relpath(choice, root) if storage.is_local(root) else choice[len(root) + 1 :]
            yield Skipped(name, NO_MATCH)


def _list_choice(choice: str, root: str, kind: FileKind) -> Iterator[FoundFiles | ListingItem]:
    """List one choice of a glob; a choice without wildcards is a folder or file, and may be missing."""
    if is_glob(choice) or not storage.is_local(choice):
        yield from _list_one(choice, root, kind)
    else:
        name = os.path.relpath(choice, root)
        there = _look_for(name, choice)
        if isinstance(there, Reject):
            yield there
        elif _is_folder(choice):
            yield from _walk(choice, f"{name}/", frozenset(), kind)
        elif there:
            yield _stat(name, choice)


def _look_for(name: str, path: str, follow_links: bool = False) -> bool | Reject:
    """Return True if a local file, folder or link exists; a Reject if permissions forbid to know."""
    try:
        os.stat(path, follow_symlinks=follow_links)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        return Reject(_escape_name(name), None, "index", f"cannot be read: {error.strerror}", count="at least")
    return True


def _list_one(pattern: str, root: str, kind: FileKind) -> Iterator[FoundFiles | ListingItem]:
    if not storage.is_local(pattern):
        yield from _list_store(pattern, root, kind)
    elif is_glob(pattern):
        # The glob module passes over folders that it cannot list, and follows links round every loop
        wanted = [part for part in pattern.removeprefix(f"{root}/").lstrip("/").split("/") if part != "."]
        if _look_for("", root, follow_links=True):  # or a Reject: walking says why it cannot be listed
            yield from _walk_glob(root, "", frozenset(), kind, wanted, _skip_folders({0}, wanted))
    elif os.path.isfile(pattern):
        yield _stat(os.path.relpath(pattern, root) if root != "." else os.path.normpath(pattern), pattern)
    else:
        yield from _walk(root, "", frozenset(), kind)


def _list_store(pattern: str, root: str, kind: FileKind) -> Iterator[ListingItem]:
    """List objects, named relative to `root`: that called `pattern`, those that it matches, or all below it."""
    if not is_glob(pattern) and is_file(pattern):
        yield replace(storage.stat_file(pattern), path=pattern[len(root) + 1 :])
        return
    by_glob = is_glob(pattern)
    wanted = pattern[len(root) + 1 :].split("/")
    prefix = pattern[: _first_wildcard(pattern)] if by_glob else f"{pattern.rstrip('/')}/"
    last_hidden = ""
    for found in _list_objects(pattern, prefix, root):
        name = found.path
        parts = name.split("/")
        depth = next((depth for depth, part in enumerate(parts, 1) if _is_hidden(part, kind)), 0)
        if by_glob and matches_glob(parts, wanted, kind):
            yield found
        elif by_glob and (not depth or not matches_glob(parts, wanted)):
            continue
        elif depth:
            # Report a hidden folder once, as for local folders; listings are sorted, so its files are consecutive.
            hidden = "/".join(parts[:depth])
            if hidden != last_hidden:
                yield _skip_hidden(hidden)
            last_hidden = hidden
        else:
            yield found if _is_of_kind(kind, name, storage.join(root, name)) else _skip(name)


def _is_of_kind(kind: FileKind, name: str, path: str) -> bool:
    if _README.fullmatch(name.rpartition("/")[2]):
        return False
    if kind.accepts(name) or not kind.has_signature or _OTHER_FILES.search(name):
        return kind.accepts(name)
    from shardmill.transforms.formats.tfrecords import HEAD_BYTES, is_tfrecord

    try:
        with storage.open_read(path) as file:
            return is_tfrecord(file.read(HEAD_BYTES))
    except FileNotFoundError:
        return False
    except OSError as error:
        raise_if_store_failed(error, path)
        return True  # reading it says why it cannot be read


def _list_objects(pattern: str, prefix: str, root: str) -> Iterator[FileStat]:
    try:
        for item in object_store(prefix).stats(prefix):
            if not item.path.endswith("/"):  # a "folder" object of the cloud console
                yield replace(item, path=item.path[len(root) + 1 :])
    except FileNotFoundError:
        raise UserError(f"--input {pattern}: there is no such bucket") from None


def matches_glob(parts: Sequence[str], pattern: Sequence[str], kind: FileKind | None = None) -> bool:
    """Return True if a path matches a glob, both split at /; as in the glob module, `**` is any number of folders.

    Wildcards match no name that begins with a dot, nor one that is hidden for files of `kind`.
    """
    places = _skip_folders({0}, pattern)  # in the glob, up to which the parts so far match
    for part in parts:
        places = _match_part(part, pattern, places, kind)
    return len(pattern) in places


def _match_part(part: str, pattern: Sequence[str], places: Iterable[int], kind: FileKind | None) -> set[int]:
    """Return the positions in a glob up to which a path matches that goes on with `part` after those in `places`."""
    is_hidden, found = part.startswith(".") if kind is None else _is_hidden(part, kind), set()
    for place in places:
        wanted = pattern[place] if place < len(pattern) else None
        if wanted is None or (is_hidden and wanted[:1] != part[:1]):
            continue
        if wanted == "**":
            found.add(place)
        elif fnmatch.fnmatchcase(part, wanted):
            found.add(place + 1)
    return _skip_folders(found, pattern)


def _skip_folders(places: set[int], pattern: Sequence[str]) -> set[int]:
    """Add to the matched positions in a glob those after each `**`, which may match no folder at all."""
    for place in tuple(places):
        while place < len(pattern) and pattern[place] == "**":
            place += 1
            places.add(place)
    return places


_Folders = frozenset[tuple[int, int]]  # devices and inodes
_LEADING_NOWHERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)  # errors of links that are broken
_Entries = list[os.DirEntry[str]]


def _enter(
    folder: str, prefix: str, ancestors: _Folders, is_listed: bool = True
) -> tuple[_Folders, _Entries] | Skipped | Reject:
    """Return the folders that `folder` is in, with itself, and its entries sorted by name; or why it is not listed."""
    try:
        status = os.stat(folder)
        entries = sorted(os.scandir(folder), key=lambda item: item.name) if is_listed else []
    except OSError as error:
        reason = f"cannot list the folder: {error.strerror}"
        return Reject(_escape_name(prefix or folder), None, "index", reason, count="at least")
    here = (status.st_dev, status.st_ino)
    if here in ancestors:
        return Skipped(_escape_name(prefix[:-1]), "symbolic link loop")
    if len(ancestors) > _MAX_DEPTH:
        return Reject(_escape_name(prefix), None, "index", f"folders are over {_MAX_DEPTH} deep", count="at least")
    return ancestors | {here}, entries


def _walk(folder: str, prefix: str, ancestors: _Folders, kind: FileKind) -> Iterator[FoundFiles | ListingItem]:
    entered = _enter(folder, prefix, ancestors)
    if isinstance(entered, Skipped | Reject):
        yield entered
        return
    (inside, entries), others, found, is_plain = entered, _Entries(), 0, kind.is_plain
    for start in range(0, len(entries), _FILES_AT_ONCE):
        plain = _Entries()
        for item in entries[start : start + _FILES_AT_ONCE]:
            (plain if is_plain(item.name) else others).append(item)
        if (files := _stat_files(prefix, plain)) is None:
            others += plain
        elif plain:
            found += len(plain)
            yield files
    for item in others:
        name = f"{prefix}{item.name}"
        if _is_hidden(item.name, kind):
            yield _skip_hidden(_escape_name(name))
        elif _is_folder(item):
            found += 1  # or none: then that folder is reported itself
            yield from _walk(item.path, f"{name}/", inside, kind)
        elif _is_of_kind(kind, item.name, item.path):
            found += 1
            yield _stat(name, item.path)
        else:
            yield _skip_broken_link(name, item.path) or _skip(_escape_name(name))
    if prefix and not found:
        yield Skipped(_escape_name(prefix[:-1]), f"{_EMPTY_FOLDER}{kind.plural}")


def _walk_glob(
    folder: str, prefix: str, ancestors: _Folders, kind: FileKind, pattern: Sequence[str], places: set[int]
) -> Iterator[ListingItem]:
    """List files below `folder` that match a glob, split at /, which the folder matches up to `places`.

    Only folders that may hold such files are listed, and only if the next part of the glob has wildcards.
    """
    names = sorted({pattern[place] for place in places if place < len(pattern)} - {""})
    has_magic = any(map(glob.has_magic, names))
    entered = _enter(folder, prefix, ancestors, has_magic)
    if isinstance(entered, Skipped | Reject):
        yield entered
        return
    inside, found = entered
    entries = {item.name: item for item in found} if has_magic else dict.fromkeys(names)
    for own_name, entry in entries.items():
        name, path = f"{prefix}{own_name}", os.path.join(folder, own_name)
        matched = _match_part(own_name, pattern, places, kind)
        if not matched:
            if not own_name.startswith(".") and _match_part(own_name, pattern, places, None):
                yield _skip_hidden(_escape_name(name))
            continue
        there = entry is not None or _look_for(name, path)
        if isinstance(there, Reject):
            yield there
        elif matched != {len(pattern)} and _is_folder(entry or path):
            yield from _walk_glob(path, f"{name}/", inside, kind, pattern, matched)
        elif there and len(pattern) in matched:
            if not os.path.isdir(path):
                yield _stat(name, path)
        elif there and (broken := _skip_broken_link(name, path)) is not None:
            yield broken


def _skip_broken_link(name: str, path: str) -> Skipped | None:
    is_broken = os.path.islink(path) and not os.path.exists(path)
    return Skipped(_escape_name(name), "broken symbolic link") if is_broken else None


def _is_folder(entry: os.DirEntry[str] | str) -> bool:
    """Return True if an entry or path is a folder, or a link that permissions hide, which listing it reports."""
    try:
        return stat.S_ISDIR(os.stat(entry).st_mode) if isinstance(entry, str) else entry.is_dir()
    except OSError as error:
        return error.errno not in _LEADING_NOWHERE


def _stat_files(prefix: str, entries: _Entries) -> FoundFiles | None:
    """Return files of a folder in columns; None if one is no file, has no UTF-8 name or a time or inode of 64 bits."""
    try:
        "".join(names := [f"{prefix}{item.name}" for item in entries]).encode()
        found = [os.stat(item.path) for item in entries]  # DirEntry.stat would keep it as long as the entry
        statuses = np.array([(s.st_size, s.st_mtime_ns, s.st_ino) for s in found], np.int64)
    except (OSError, OverflowError, UnicodeEncodeError):
        return None
    return FoundFiles(names, statuses) if all(stat.S_ISREG(s.st_mode) for s in found) else None


def _stat(name: str, path: str) -> ListingItem:
    try:
        name.encode()
    except UnicodeEncodeError:
        return Reject(_escape_name(name), None, "index", "the file name is not UTF-8; rename the file")
    try:
        status = os.stat(path)
    except OSError as error:
        link = "dangling or looping symbolic link: " if os.path.islink(path) else ""
        return Reject(name, None, "index", f"{link}{error.strerror}")
    if not stat.S_ISREG(status.st_mode):
        return Skipped(name, "special file")
    return FileStat(name, status.st_size, f"{TIME_STAMP}{status.st_mtime_ns}", status.st_mtime, status.st_ino)


def _skip(name: str) -> Skipped:
    if _CLUTTER.match(posixpath.basename(name)):
        return Skipped(name, "file without data")
    suffix = posixpath.splitext(name)[1]
    return Skipped(name, f"{suffix} file" if suffix else NO_SUFFIX)


def is_unknown_file(kind: str) -> bool:
    """Return True if the kind of something skipped is that of files that are neither of the input nor excluded."""
    return kind == NO_SUFFIX or re.fullmatch(r"\..* file", kind, re.DOTALL) is not None


def _is_hidden(part: str, kind: FileKind) -> bool:
    """Return True for hidden files and folders; of Parquet as for Spark, which begins names of its own with `_`."""
    return part.startswith(".") or part in SYSTEM_FOLDERS or (kind.is_parquet and part[:1] == "_" and "=" not in part)


def _skip_hidden(name: str) -> Skipped:
    last = posixpath.basename(name)
    what = "system folder" if last in SYSTEM_FOLDERS else _OWN_NAME if last.startswith("_") else "hidden file"
    return Skipped(name, what)


# Of Delta, Iceberg and Hudi: the folder, in a table's own, of files that say which of the others it consists of
_LOGS = {"_delta_log": "Delta", "metadata": "Iceberg", ".hoodie": "Hudi"}
_MANY_FOLDERS = 16  # of which a request each is too many


def check_no_table_format(pattern: str, kind: FileKind, names: Iterable[str]) -> None:
    """Raise a UserError if Parquet files are a table of Delta, Iceberg or Hudi, unless --exclude leaves its log out.

    Such a folder also has files that are no longer part of its table. The log says which, and it is not read.
    """
    root = input_root(pattern)
    folders = {posixpath.dirname(storage.join(root, name)) for name in names}
    for folder in sorted(folders)[: None if storage.is_local(root) else _MANY_FOLDERS]:
        while True:
            for log in storage.list_folders(folder):
                path = storage.join(folder, log)
                if find_exclusion(path.removeprefix(f"{root}/"), kind.exclude) is None and _is_log(path):
                    raise UserError(
                        f"--input {pattern}: {folder} is a table of {_LOGS[log]}, and may have files with old rows that"
                        f" are no longer part of it; its log, {log}, is not read. Write the table to a Parquet file"
                        f" with a reader of {_LOGS[log]}, or give --exclude {log} to read all files"
                    )
            if "=" not in posixpath.basename(folder) and posixpath.basename(folder) != "data":
                break
            folder = posixpath.dirname(folder)


def _is_log(folder: str) -> bool:
    name = posixpath.basename(folder)
    if name != "metadata":
        return name in _LOGS
    return any(file.endswith(".metadata.json") for file, _ in storage.list_files(folder))


def _escape_name(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "backslashreplace")


@dataclass(frozen=True)
class RecordFiles:
    """The record files of an input: a folder, file or glob, or several whose files are paired in order of their names.

    Paired files are, for example, translations.
    """

    # (feature, folder, file or glob) of each; the first's folders give splits and classes; ("", pattern) if it is alone
    patterns: tuple[tuple[str, str], ...]
    are_splits: bool = False  # True if patterns are named after the splits of their files, which are not paired
    shards: tuple[tuple[str, str], ...] = ()  # (split, file name) of each shard, if the only pattern is a data set

    def list_files(self, kind: FileKind) -> Iterator[FileRef | Skipped | Reject]:
        """List the input; the files come last, ordered by name, with shares of the key space by their bytes.

        Paired files are parts of the first pattern's; a UserError is raised if they do not match.
        """
        if self.shards:
            yield from self._list_shards(kind)
            return
        if self.are_splits:
            yield from self._list_splits(kind)
            return
        others: list[tuple[str, Skipped | Reject]] = []
        refs: list[list[FileRef]] = []
        for name, pattern in self.patterns:
            root = input_root(pattern)
            items = list(list_singly(list_input(pattern, accept_language_suffix(kind, name) if name else kind)))
            files = [item for item in items if isinstance(item, FileStat)]
            skipped = (item for item in items if not isinstance(item, FileStat))
            others += ((storage.join(root, _name_of(item)), item) for item in skipped)
            if kind.is_parquet:
                check_no_table_format(pattern, kind, [file.path for file in files])
            if kind.has_signature:
                _check_one_version(pattern, [file.path for file in files])
            refs.append(to_refs(files, root))
        taken = {ref.path for of_pattern in refs for ref in of_pattern}
        yield from (item for path, item in others if path not in taken)
        if len(refs) == 1:
            yield from assign_key_shares(refs[0])
            return
        self._check(refs, [item for _, item in others if isinstance(item, Reject)])
        pairs = zip(*refs, strict=True)
        yield from assign_key_shares(
            replace(parts[0], size_bytes=sum(part.size_bytes for part in parts), parts=parts) for parts in pairs
        )

    def _list_shards(self, kind: FileKind) -> Iterator[FileRef | Skipped | Reject]:
        """List the shards of a data set, with `are_splits` as if those of each split were in a folder called after it.

        Raise a UserError if one is missing.
        """
        ((_, folder),) = self.patterns
        splits = {name: split for split, name in self.shards}
        found = {item.path: item for item in list_singly(list_input(folder, kind)) if isinstance(item, FileStat)}
        if not kind.exclude and (missing := [name for name in splits if name not in found]):
            raise UserError(
                f"--input {folder}: {len(missing):,} of {len(splits):,} shards of the data set are missing, such as"
                f" {missing[0]}; restore them, or give --input '{folder}/*record*' to read those that are there"
            )
        refs = [
            FileRef(f"{split}/{name}" if self.are_splits else name, storage.join(folder, name), found[name].size_bytes)
            for name, split in splits.items()
            if name in found
        ]
        yield from assign_key_shares(sorted(refs, key=lambda file: file.name))

    def _list_splits(self, kind: FileKind) -> Iterator[FileRef | Skipped | Reject]:
        refs: dict[str, FileRef] = {}
        for split, pattern in self.patterns:
            for item in list_singly(list_input(pattern, kind)):
                if not isinstance(item, FileStat):
                    yield item
                    continue
                path = storage.join(input_root(pattern), item.path)
                if path in refs:
                    raise UserError(f"{path} is a file of both --input {refs[path].name.split('/')[0]}=… and {split}=…")
                refs[path] = FileRef(f"{split}/{item.path}", path, item.size_bytes, revision=item.revision)
        yield from assign_key_shares(sorted(refs.values(), key=lambda file: file.name))

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
                    f" would be paired with {parts[mismatch].name!r} of {inputs[mismatch]}, whose name has"
                    " another split"
                )


def accept_language_suffix(kind: FileKind, name: str) -> FileKind:
    """Return the file kind extended by names that end in a language, such as `train.de` and `train.de.gz`."""
    return replace(kind, suffixes=rf"{kind.suffixes}|{re.escape(name)}(?:\.(?:gz|bz2|zst))?")


def to_refs(found: Iterable[FileStat], root: str) -> list[FileRef]:
    """Return references to record files, ordered by name."""
    return [
        FileRef(file.path, storage.join(root, file.path), file.size_bytes, revision=file.revision)
        for file in sorted(found, key=lambda file: file.path)
    ]


def assign_key_shares(refs: Iterable[FileRef]) -> list[FileRef]:
    """Give each file a share of the key space in proportion to its bytes, so that input order can be a key."""
    files = list(refs)
    weights = [file.size_bytes + 1 for file in files]  # an empty one has a share too
    unit = ((1 << 64) - 1) // max(sum(weights), 1)
    starts = itertools.accumulate(weights, initial=0)
    return [
        replace(file, key_start=start * unit, key_span=weight * unit)
        for file, weight, start in zip(files, weights, starts, strict=False)
    ]


def _split_words(name: str) -> tuple[str | None, ...]:
    folders = (SPLIT_FOLDERS.get(part.lower()) for part in name.split("/")[:-1])
    return (*filter(None, folders), split_of_file(name))


_FIRST_YEAR = 1900  # a folder 2026.01.31 is a day


def _check_one_version(pattern: str, names: Iterable[str]) -> None:
    """Raise a UserError if some files are in the folder of one version of a data set, and others in that of another."""
    versions: dict[str, dict[str, str]] = {}
    for name in names:
        folder = ""
        for part in name.split("/")[:-1]:
            if file_names.is_version(part) and int(part.partition(".")[0]) < _FIRST_YEAR:
                versions.setdefault(folder, {}).setdefault(part, name)
            folder = f"{folder}{part}/"
    for folder, found in versions.items():
        if len(found) > 1:
            shown = listed([f"{folder}{version}" for version in sorted(found)], 3)
            raise UserError(
                f"--input {pattern} has files of {len(found)} versions of a data set, {shown}, and records of one would"
                " be there again in the other; give the folder of one, or --input train=PATH, which reads all"
            )
