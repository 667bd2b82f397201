"""Files get the names under which they are found, again and again until all have them: on local disks and on object
stores, where that is a copy."""

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence

from shardmill.transforms.stores import local, storage
from shardmill.transforms.stores.clients import object_store
from shardmill.transforms.stores.protocol import Rename


def rename(sources: Sequence[str], destinations: Sequence[str], *, sizes: Mapping[str, int] | None = None) -> None:
    """Rename each source to its destination, replacing it; a source already renamed by an earlier attempt is passed
    over.

    Args:
      sources, destinations: paths.
      sizes: bytes by path, of the sources that exist, where the caller knows; None to look.

    Raises:
      FileNotFoundError: neither a source nor its destination exists.
    """
    there = _existing(sources) if sizes is None else sizes
    moves = []
    for source, destination in zip(sources, destinations, strict=True):
        if source in there:
            moves.append(Rename(source, destination, there[source]))
        elif not storage.exists(destination):
            raise FileNotFoundError(f"neither {source} nor {destination} exists")
    remote = defaultdict(list)
    for move in moves:
        if storage.is_local(move.source):
            local.move(move.source, move.destination)
        else:
            remote[storage.bucket_of(move.source)].append(move)
    for renamed in remote.values():
        object_store(renamed[0].source).rename(renamed)


def _existing(paths: Sequence[str]) -> dict[str, int]:
    """Those of `paths` that exist, and their sizes in bytes; objects below one folder are found with one listing, not
    with a request each."""
    found = {path: os.path.getsize(path) for path in paths if storage.is_local(path) and os.path.exists(path)}
    outer = ""
    for folder in sorted({f"{path.rpartition('/')[0]}/" for path in paths if not storage.is_local(path)}):
        if not outer or not folder.startswith(outer):
            outer = folder
            found.update(object_store(folder).list(folder))
    return found


def put_in_place(source: str, destination: str) -> bool:
    """Let a small file have another name, replacing what has it; whether it was there, for an earlier attempt may have
    done so already.

    On an object store, where that is a copy, the first is left for whoever clears its folder.
    """
    if storage.is_local(source):
        if not os.path.exists(source):
            return False
        local.move(source, destination)
        storage.sync_directories([os.path.dirname(destination)])
        return True
    try:
        data = storage.read_bytes(source)
    except FileNotFoundError:
        return False
    storage.write_bytes(destination, data)
    return True
