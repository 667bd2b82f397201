"""What differs in the graph of records whose texts are tokenized: how shards are cut, and what is said of tokens."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import apache_beam as beam

from shardmill.errors import JobError, UserError
from shardmill.pipelines.config.records import RecordsConfig
from shardmill.transforms.records.run_file import Run, read_keys
from shardmill.transforms.records.stage import Staged, StagedRuns
from shardmill.transforms.sharding.balance import ShardCount
from shardmill.transforms.sharding.cuts import FindByteCuts
from shardmill.transforms.sharding.divisions import Divisions, divide_by_blocks
from shardmill.transforms.sharding.shards import shard_count
from shardmill.transforms.tokens.pack import tokens_in
from shardmill.transforms.tokens.tokenize import CUT, INPUT_IDS, LOST, Tokenization
from shardmill.transforms.writing.shard_info import ShardInfo

_ID_BYTES = 3  # of a token's id in an example, at most: vocabularies have fewer than 2**21 tokens


def token_cuts(staged: StagedRuns, config: RecordsConfig) -> beam.PCollection[Divisions]:
    """Cuts by which shards differ by one example's tokens at most; of packed texts, by one block."""
    if config.pack_to is not None:
        count = partial(_packed_count, config.shard_counts, config.pack_to)
        divide = partial(divide_by_blocks, block=config.pack_to)
        return staged.runs | "Plan" >> FindByteCuts(read_keys, count, config.read_threads, divide)
    sizes = staged.runs | "SizesOfRun" >> beam.Map(_sizes) | "Sizes" >> beam.CombineGlobally(_added)
    count = partial(shard_count, config.shard_counts)
    return staged.weighed | "Plan" >> FindByteCuts(read_keys, count, config.read_threads, bytes_of=sizes)


def _sizes(run: Run) -> dict[str, int]:
    return {part.group: part.size_bytes for part in run.parts}


def _added(sizes: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in sizes:
        for group, size in each.items():
            total[group] = total.get(group, 0) + size
    return total


def _packed_count(counts: Mapping[str, ShardCount], block: int, split: str, documents: int, size_bytes: int) -> int:
    tokens = tokens_in(documents, size_bytes)
    if tokens < block:
        raise UserError(
            f"--pack_to {block}: split {split!r} has {tokens:,} tokens in all, fewer than one block; give a smaller"
            " number, or more text"
        )
    return shard_count(counts, split, tokens // block, tokens // block * block * _ID_BYTES)


def packed_documents(staged: Staged) -> dict[str, tuple[int, int]]:
    """How many documents each split has, and how many tokens in all with one behind each."""
    lengths = {split: stats.numbers_of(INPUT_IDS) for split, stats in staged.stats.items()}
    return {split: (each.sums.count, each.sums.total + each.sums.count) for split, each in lengths.items() if each}


def tokens_by_split(staged: Staged, shards: Sequence[ShardInfo], how: Tokenization) -> dict[str, int]:
    """How many tokens the examples of each split have."""
    if how.pack_to is None:
        return {split: sum(stats.values_of(name) for name in how.ids.values()) for split, stats in staged.stats.items()}
    tokens = dict.fromkeys(staged.stats, 0)
    for shard in shards:
        tokens[shard.name.split] += shard.examples * how.pack_to
    return tokens


def token_notices(staged: Staged, tokens: Mapping[str, int], how: Tokenization, end: str) -> list[str]:
    """What must be said of tokens: how many were lost, and what was packed.

    Raises:
      JobError: of a split's tokens more are in no block than a block has, or fewer than none.
    """
    said = []
    if cut := staged.tokens[CUT]:
        lost = staged.tokens[LOST]
        texts = len(how.columns) * sum(stats.examples for stats in staged.stats.values())
        said.append(
            f"{cut:,} of {texts:,} texts had more than --max_length"
            f" {how.max_length} tokens and were cut: {lost:,} tokens were lost"
        )
    if how.pack_to is None:
        return said
    for split, (documents, all_tokens) in packed_documents(staged).items():
        left = all_tokens - tokens[split]
        if not 0 <= left < how.pack_to:
            raise JobError(f"split {split!r}: {all_tokens:,} tokens are in documents, but {tokens[split]:,} in blocks")
        said.append(
            f"split {split!r}: {documents:,} texts, each with {end!r} behind it, are {all_tokens:,} tokens:"
            f" {tokens[split] // how.pack_to:,} blocks of {how.pack_to:,}; the last {left:,} tokens fill none and were"
            " dropped"
        )
    return said
