"""The Python code that takes the place of the compiled extension where it is not compiled."""

import pytest

from shardmill.data import spans, tfrecord
from shardmill.transforms.stores import streams


def without_native(patch: pytest.MonkeyPatch) -> None:
    """Scan spans and read ranges as an installation does in which the extension is not compiled."""
    patch.setattr(spans, "_spans", tfrecord)
    for name in ("count", "find_before", "read_example"):  # bound as the module is imported
        patch.setattr(spans, name, getattr(tfrecord, name))
    patch.setattr(streams, "_read_some", lambda *arguments: 0)
