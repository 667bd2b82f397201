"""What `finish_bundle` may emit: Beam wants the window said, and has no public way for the only one there is here."""

from typing import Any

from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.window import GlobalWindows


def windowed(item: Any) -> Any:
    """An element, or a TaggedOutput of one, as finish_bundle must emit it."""
    if isinstance(item, TaggedOutput):
        return TaggedOutput(item.tag, windowed(item.value))
    return GlobalWindows.windowed_value(item)
