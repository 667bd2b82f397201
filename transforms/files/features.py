"""The features that examples of files have in common, whatever kind of file they are."""

from collections.abc import Sequence

from shardmill.features.feature import Feature, Features
from shardmill.transforms.layout.files import Layout

TFDS_CANNOT = "TFDS cannot decode"  # so begin the notices of what only other readers can


def file_features(
    layout: Layout, rows: int, value: Feature, measured: Sequence[str] = (), noted: Features = ()
) -> Features:
    """The features of a data set of files, in the order in which shardmill.transforms.files.encode writes them.

    Args:
      layout: class names and a manifest's columns.
      rows: records planned: a column with a value in each of them is required.
      value: what is stored of the file itself.
      measured: the names of numbers that the kind adds, such as `height`.
      noted: what is noted of the file, beside columns.
    """
    features = [value]
    if layout.class_names is not None:
        shape = (None,) if layout.label_lists else ()
        features.append(Feature("label", "int64", "class_label", shape, class_names=layout.class_names.names))
    features.append(Feature("filename", "bytes", "text", role="source"))
    features += [Feature(name, "int64", role="source") for name in measured]
    features += noted
    features += [column.feature(name, rows) for name, column in layout.columns.items()]
    return tuple(features)
