"""The encoded elements between the steps of a job in this process, each in full, as a cluster sends them."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
from apache_beam.coders.coder_impl import create_OutputStream
from apache_beam.runners.worker.bundle_processor import DataOutputOperation

from shardmill.pipelines.jobs import job

Sizes = dict[str, list[int]]


@contextmanager
def sizes_of_elements() -> Iterator[Sizes]:
    """The bytes of each element that a step has sent to another, by what it is."""
    sizes: Sizes = defaultdict(list)
    send = DataOutputOperation.process

    def measuring(operation: Any, element: Any) -> None:
        stream = create_OutputStream()
        operation.windowed_coder_impl.encode_to_stream(element, stream, True)
        sizes[_kind(element.value)].append(stream.size())
        send(operation, element)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DataOutputOperation, "process", measuring)
        patch.setattr(job, "keep_on_disk", nullcontext)  # which leaves the places of batches alone
        yield sizes


def _kind(value: Any) -> str:
    """The type of an element, without its key."""
    if isinstance(value, tuple) and len(value) == 2:
        return _kind(value[1])
    if isinstance(value, dict) and value:
        return f"dict of {_kind(next(iter(value.values())))}"
    return type(value).__name__
