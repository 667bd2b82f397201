"""Which records of a job hold the same, and what of them was compared."""

from collections.abc import Iterable
from dataclasses import replace

from shardmill.statistics.duplicates import Duplicates
from shardmill.transforms.contents.find import find_duplicates
from shardmill.transforms.layout.table_layout import TableLayout
from shardmill.transforms.records.stage import Staged
from shardmill.transforms.writing.shard_info import ShardInfo


def equal_contents(
    content: str, layout: TableLayout, staged: Staged, shards: Iterable[ShardInfo], is_packed: bool
) -> Duplicates:
    """Which contents are there more than once.

    Args:
      content: what of records is compared that hold no images, in words.
      layout: of the input.
      staged: what was seen of its rows.
      shards: whose writers have compared what rows alone are not: sequences.
      is_packed: whether examples are cut from documents, which are what was compared.
    """
    if layout.images:
        content = f"images of {', '.join(map(repr, layout.images))}, as they are stored"
    sections = [*staged.sections, *(shard.section for shard in shards if shard.section is not None)]
    names = {feature.name: feature.class_names for feature in layout.features}
    found = find_duplicates(content, sections, names.get(next(iter(layout.row_labels), ""), ()))
    if not is_packed:
        return found
    return replace(found, documents={split: stats.examples for split, stats in sorted(staged.stats.items())})
