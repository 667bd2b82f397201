"""The PTransform that finds the files of a folder or a glob. Batches of references come out."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput

from shardmill.metadata.rejects import Reject
from shardmill.transforms.inputs.companions import COMPANIONS
from shardmill.transforms.inputs.file_kind import IMAGES, FileKind
from shardmill.transforms.inputs.folders import FolderRoles
from shardmill.transforms.inputs.found import FOUND
from shardmill.transforms.inputs.indexed import REJECTS, SUMMARIES, indexed, tagged
from shardmill.transforms.inputs.listing import Found, Listed, list_input
from shardmill.transforms.inputs.masks import Masks
from shardmill.transforms.inputs.summary import InputSummary, summarize_batch, summarize_skipped
from shardmill.transforms.rejects.part import RejectsWriter
from shardmill.transforms.stores.identity import identity_of, identity_of_all
from shardmill.transforms.workers.batches import batches, bounded


@dataclass(eq=False)
class ListFiles(beam.PTransform):
    """Root -> Indexed: every file of a folder or a glob.

    Attributes:
      pattern: the folder or glob.
      kind: of the files that a folder is searched for.
      roles: what their folders mean, where --folders says it.
      identities: whether references say which files are still what they were.
      temporary: the job's temporary directory; None in a dry run.
      masks: the folder of the files' masks, if they have any.
    """

    pattern: str
    kind: FileKind = IMAGES
    roles: FolderRoles | None = None
    identities: bool = False
    temporary: str | None = None
    masks: str | None = None

    def expand(self, pbegin: beam.pvalue.PBegin) -> Any:  # Indexed; Beam reads annotations as element types
        """List on one worker; a listing is a stream of small things."""
        outputs = (
            pbegin
            | "Pattern" >> beam.Create([self.pattern])
            | "List"
            >> beam.FlatMap(_list, self.kind, self.roles, self.identities, self.temporary, self.masks)
            .with_output_types(pa.RecordBatch)
            .with_outputs(REJECTS, SUMMARIES, main="files")
        )
        return indexed(outputs["files"], outputs)


def _list(
    pattern: str,
    kind: FileKind,
    roles: FolderRoles | None,
    identities: bool,
    temporary: str | None,
    masks: str | None = None,
) -> Iterator[Any]:
    listed = list_input(pattern, kind)
    yield from index_listing(
        listed, roles, identities, temporary, Masks(masks, identities) if masks is not None else None
    )


def index_listing(
    listed: Iterable[Listed],
    roles: FolderRoles | None = None,
    identities: bool = False,
    temporary: str | None = None,
    masks: Masks | None = None,
) -> Iterator[Any]:
    """FOUND batches of what was listed; rejects, which `temporary` is for, and summaries, tagged.

    References without `identities` are eight bytes a file smaller, which would not compress. With `masks`, each file
    has its own beside it, and one without is a reject.
    """
    summary, other = InputSummary(), InputSummary()
    rejects = RejectsWriter(temporary)
    schema = FOUND if masks is None else FOUND.append(COMPANIONS)
    first: str | None = None

    def rows() -> Iterator[tuple[Any, ...]]:
        nonlocal other, first
        for item in listed:
            if isinstance(item, Found) and masks is not None:
                first = item.name if first is None else first
                mask = masks.of(item.name)
                if isinstance(mask, str):
                    rejects.add([Reject(item.name, None, "index", mask)])
                    other = other.merge(InputSummary(rejected=1))
                    continue
                path, size, of_mask = mask
                identity = identity_of(item.size_bytes, item.stamp, item.modified) if identities else None
                both = identity_of_all(identity, [(path, of_mask)]) if identities else None
                yield item.name, item.size_bytes + size, None, None, None, None, None, both, [path]
            elif isinstance(item, Found):
                identity = identity_of(item.size_bytes, item.stamp, item.modified) if identities else None
                yield item.name, item.size_bytes, None, None, None, None, None, identity
            elif isinstance(item, Reject):
                rejects.add([item])
                other = other.merge(InputSummary(rejected=1))
            else:
                other = other.merge(summarize_skipped(item.kind, item.name))

    for batch in batches(rows(), schema):
        yield from bounded(batch)
        summary = summary.merge(summarize_batch(batch, roles=roles))
    if masks is not None and first is not None:
        masks.check_used(first)
        other = other.merge(InputSummary(notices=frozenset(masks.notices())))
    yield from tagged(rejects.close())
    yield TaggedOutput(SUMMARIES, summary.merge(other))
