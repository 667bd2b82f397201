"""The schema.pbtxt that lies beside existing records, where nobody gave it as --schema."""

import posixpath

from shardmill.features.feature import Feature, Features
from shardmill.kinds.registry import kind_of
from shardmill.metadata import naming
from shardmill.transforms.inputs.listing import input_root
from shardmill.transforms.inputs.summary import InputSummary
from shardmill.transforms.layout.label import names_beside_schema
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.failures import raise_if_store_failed

_SEEN = ("tensor", "text", "image")  # kinds that records show themselves
_NAMED = 5  # features, at most


def unheeded_notices(summary: InputSummary, records: str) -> list[str]:
    """What a schema beside the records, which is not heeded, says of their features and they do not.

    Raises:
      OSError: a store failed; a runner tries again.
    """
    root = input_root(records)
    below = [name for _, name in summary.skipped.values() if posixpath.basename(name) == naming.SCHEMA]
    for name in (naming.SCHEMA, *below):
        path = storage.join(root, name)
        try:
            text = storage.read_bytes(path).decode(errors="replace")
        except OSError as error:
            raise_if_store_failed(error, path)
            continue
        return [_notice(path, text)]
    return []


def _notice(path: str, text: str) -> str:
    from google.protobuf import text_format

    from shardmill.metadata.schema import from_pbtxt

    said = f"{path} lies beside the records, and was not heeded"
    try:
        features = from_pbtxt(text)
    except (text_format.ParseError, ValueError) as error:
        return f"{said}; nor could it be, as --schema: {error}"
    lost = tuple(feature for feature in features if feature.kind not in _SEEN or feature.time)
    labels = [feature for feature in lost if kind_of(feature).has_classes]
    given = f"--schema {path}"
    if labels:
        files = names_beside_schema(labels[0]) if len(labels) == 1 else "their names"
        given += f" with --label {','.join(item.name for item in labels)} and --labels_file {files}"
    what = f"what the records do not show: {_named(lost)}" if lost else "what it says of them"
    return f"{said}: {given} keeps {what}"


def _named(features: Features) -> str:
    shown = [f"{feature.name!r} ({_kind(feature)})" for feature in features[:_NAMED]]
    more = len(features) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def _kind(feature: Feature) -> str:
    return f"times in {feature.time}" if feature.time else feature.kind
