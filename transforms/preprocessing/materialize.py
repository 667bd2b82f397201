"""Transformed examples instead of raw ones: which features they have, and what the graph makes of records."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from shardmill.features.feature import Feature, Features
from shardmill.metadata import naming
from shardmill.metadata.schema import from_pbtxt
from shardmill.metadata.transform_file import TransformFile
from shardmill.transforms.stores import storage

Apply = Callable[[Sequence[bytes]], pa.RecordBatch]
_TRANSFORMED = f"{naming.TRANSFORM_GRAPH}/transformed_metadata/schema.pbtxt"


class GraphFailedError(ValueError):
    """The graph does not take one of some examples; why, in TensorFlow's words."""


@dataclass(frozen=True, slots=True)
class StagedGraph:
    """A graph that is made, before anything is published.

    Attributes:
      folder: where its files lie, by their names in the version directory; "" where there are no examples.
      names: of these files.
      features: of transformed examples.
    """

    folder: str = ""
    names: tuple[str, ...] = ()
    features: Features = ()

    @classmethod
    def write(cls, temporary: str, files: Mapping[str, bytes], raw: Features) -> "StagedGraph":
        """Leave the files of a graph below the job's temporary directory.

        Args:
          temporary: that directory.
          files: by name, see shardmill.transforms.preprocessing.files.
          raw: the features of raw examples, as these call them.

        Raises:
          OSError: they cannot be written.
        """
        # A random name keeps attempts apart
        folder = storage.join(storage.join(temporary, "transformed"), uuid.uuid4().hex)
        storage.write_all({storage.join(folder, name): data for name, data in files.items()})
        return cls(folder, tuple(files), transformed_features(raw, files))

    def read(self) -> dict[str, bytes]:
        """Its files; raises FileNotFoundError where another attempt has published and cleared up."""
        return {name: storage.read_bytes(storage.join(self.folder, name)) for name in self.names}


def transformed_features(raw: Features, files: Mapping[str, bytes]) -> Features:
    """The features of transformed examples, in the order of the outputs; those that stay as they are keep what is known
    of them.

    TFT's schema says of one value that may be missing, as of a list, that there is any number of them.
    """
    of_raw = {feature.name: feature for feature in raw}
    by_name = {feature.name: feature for feature in from_pbtxt(files[_TRANSFORMED].decode())}
    found = []
    for output in TransformFile.from_json(files[naming.TRANSFORM], naming.TRANSFORM).outputs:
        if not output.feature:
            found.append(_of_module(by_name[output.name], of_raw.get(output.name)))
            continue
        before, feature = of_raw[output.feature], by_name[output.name]
        if not output.steps:
            found.append(replace(before, name=output.name))
            continue
        if not feature.is_dense:
            is_list = before.shape != () or any("tokenize" in step for step in output.steps)
            feature = replace(feature, shape=(None,) if is_list else (), required=is_list and before.required)
        role = before.role if output.name == output.feature else "input"
        found.append(replace(feature, kind="tensor", class_names=(), role=role))
    return tuple(found)


def _of_module(feature: Feature, raw: Feature | None) -> Feature:
    """An output of a module: what is not dense is a list, for all that anybody knows."""
    shape = feature.shape if feature.is_dense else (None,)
    role = raw.role if raw is not None else "input"
    return replace(feature, shape=shape, kind="tensor", class_names=(), role=role)


def transformed(records: Sequence[bytes], apply: Apply) -> tuple[list[pa.RecordBatch], dict[int, str]]:
    """What the graph makes of records, in their order; and why of those that it does not take, by their place: halves
    are tried until one of those is alone.

    Args:
      records: serialized raw examples.
      apply: the graph, which raises GraphFailedError where it does not take one.
    """
    batches: list[pa.RecordBatch] = []
    failed: dict[int, str] = {}
    left = [(0, len(records))]
    while left:
        start, stop = left.pop()
        try:
            batches.append(apply(records[start:stop]))
        except GraphFailedError as error:
            if stop - start == 1:
                failed[start] = str(error)
            else:
                middle = (start + stop) // 2
                left += [(middle, stop), (start, middle)]
    return batches, failed
