"""Shards of files most of which an older version holds already: their records are taken from there, the others read."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from shardmill.transforms.files.encode import FileEncoder, Place
from shardmill.transforms.files.former import Former, nothing_stored
from shardmill.transforms.files.references import sorted_by_key
from shardmill.transforms.files.source import HELD
from shardmill.transforms.files.stored import Task, size_bytes, take, tasks
from shardmill.transforms.sharding.keys import hash_strings
from shardmill.transforms.workers.memory import budget
from shardmill.transforms.writing.remembered import remembered_batch
from shardmill.transforms.writing.source import EncodedChunk


@dataclass(frozen=True)
class ReusingShards:
    """A shardmill.transforms.writing.source.ShardSource over PLANNED files with identities.

    Attributes:
      encoder: of the files.
      files_per_task: how many files or ranges a thread reads at once, at most.
      seed: of the hashes of names by which the next build finds them.
      versions: of what encodes, by name.
      remembers: whether the next build is to find them.
      former: where records are taken from, if anywhere.
    """

    encoder: FileEncoder
    files_per_task: int
    seed: int
    versions: Mapping[str, str]
    remembers: bool = True
    former: Former | None = None

    def plan(self, parts: Iterable[pa.RecordBatch]) -> tuple[int, Iterable[Task]]:
        """The number of files, and some of them at a time, with what is known of each."""
        batch = self.encoder.prepare(sorted_by_key(parts))
        if self.former is None:
            stored = nothing_stored(len(batch))
        else:
            stored = self.former.find(batch, self._encoding, self._refusing, self.encoder.max_bytes)
        return len(batch), tasks(batch, stored, self.files_per_task)

    def encode(self, task: Task) -> EncodedChunk:
        """The records of some files."""
        with budget().take(HELD * size_bytes(task)):
            return self._encode(task)

    def _encode(self, task: Task) -> EncodedChunk:
        batch, stored = task
        known, damaged = take(self.former, stored) if self.former is not None else ([None] * len(batch), 0)
        chunk, places = self.encoder.encode_batch(batch, known, self.remembers)
        chunk.reused = len(known) - known.count(None)
        chunk.damaged = damaged
        chunk.remembered = self._remembered(batch, places)
        return chunk

    @cached_property
    def _encoding(self) -> str:
        return json.dumps({**self.encoder.depends_on(), **self.versions}, sort_keys=True)

    @cached_property
    def _refusing(self) -> str:
        return json.dumps(self.encoder.reasons_depend_on(), sort_keys=True)

    def _remembered(self, batch: pa.RecordBatch, places: list[Place | None]) -> pa.RecordBatch:
        metadata = {"encoding": self._encoding, "refusing": self._refusing}
        if not self.remembers:
            return remembered_batch((), metadata)
        there = np.fromiter((place is not None for place in places), np.bool_, len(places))
        # A file too large to be looked at is rejected for its planned size, which depends on more than it
        kept = there & batch["identity"].is_valid().to_numpy(zero_copy_only=False)
        kept &= batch["size"].to_numpy() <= self.encoder.max_bytes
        files = batch.select(["name", "identity"]).filter(pa.array(kept))
        keys = hash_strings(files["name"].to_pylist(), self.seed)
        rows = [place for place, keep in zip(places, kept.tolist(), strict=True) if keep and place is not None]
        return remembered_batch(rows, metadata, (files["name"], pa.array(keys), files["identity"]))
