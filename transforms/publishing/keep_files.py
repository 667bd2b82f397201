"""What a version remembers of its files is put beside it as it is published; see file_index."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from posixpath import basename

from shardmill.transforms.publishing.file_index import FileIndex, IndexedPiece, files_folder, index_name
from shardmill.transforms.stores import renames, storage
from shardmill.transforms.stores.together import together
from shardmill.transforms.writing.remembered import Piece
from shardmill.transforms.writing.shard_info import ShardInfo


@dataclass(frozen=True, slots=True)
class RememberOptions:
    """What the launcher knows of a FileIndex; the attributes are those of it."""

    root: str
    seed: int
    encoding: Mapping[str, str]
    codec: str
    former: str = ""
    why: str = ""


def keep_files(
    parent: str, version: str, manifest: bytes, shards: Sequence[ShardInfo], options: RememberOptions | None
) -> FileIndex | None:
    """Put the pieces of `shards`, and an index, beside the version that `manifest` is going to describe; the index.

    It may be done before that version is published, and again: nothing that an older version remembers is touched.
    """
    if options is None:
        return None
    folder = files_folder(parent, version)
    pieces = [(str(shard.name), shard.piece) for shard in shards if shard.piece is not None and shard.piece.path]
    storage.make_directory(folder)
    index = FileIndex(
        root=options.root,
        seed=options.seed,
        encoding=options.encoding,
        codec=options.codec,
        former=options.former,
        why=options.why,
        files=sum(shard.planned for shard in shards),
        reused=sum(shard.piece.reused for shard in shards if shard.piece is not None),
        damaged=sum(shard.piece.damaged for shard in shards if shard.piece is not None),
        pieces=tuple(_indexed(shard, piece) for shard, piece in pieces),
    )
    paths = [piece.path for _, piece in pieces]
    together(
        folder,
        partial(renames.rename, paths, [storage.join(folder, basename(path)) for path in paths]),
        partial(storage.write_text, storage.join(folder, index_name(manifest)), index.to_json(), sync=False),
    )
    return index


def forget_others(parent: str, version: str, manifest: bytes) -> None:
    """Delete what is remembered of files beside a published version, but for what the index of `manifest` names: left
    by what it replaced, and by jobs that died."""
    folder = files_folder(parent, version)
    found = {name for name, _ in storage.list_files(folder)}
    if not found:
        return
    kept = {index_name(manifest)}
    if kept <= found:
        path = storage.join(folder, index_name(manifest))
        kept |= {piece.file for piece in FileIndex.from_json(storage.read_bytes(path), path).pieces}
    storage.delete(storage.join(folder, name) for name in sorted(found - kept))


def _indexed(shard: str, piece: Piece) -> IndexedPiece:
    return IndexedPiece(basename(piece.path), piece.crc32c, shard, piece.low, piece.high)
