"""The transform graph of a data set, applied to batches of serialized examples: what TensorFlow Transform would do of
it, without it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from shardmill.errors import CorruptDataError, UserError
from shardmill.features.feature import Feature, Features
from shardmill.installation.lazy_tensorflow import tf
from shardmill.metadata import naming
from shardmill.metadata.manifest import Manifest
from shardmill.metadata.transform_file import TransformedOutput, TransformFile
from shardmill.reading.dataset import Dataset
from shardmill.tensors.parsing_spec import to_spec
from shardmill.tensors.shapes import Tensors

_RAW = f"{naming.TRANSFORM_GRAPH}/metadata/schema.pbtxt"
_TRANSFORMED = f"{naming.TRANSFORM_GRAPH}/transformed_metadata/schema.pbtxt"
_DECODED = ("image", "mask")  # kinds that are decoded after the graph, which leaves them as they are
_MODEL = f"{naming.TRANSFORM_GRAPH}/transform_fn"


class TransformGraph:
    """The graph, loaded."""

    def __init__(self, dataset: Dataset) -> None:
        """Load the graph of `dataset`.

        Raises:
          UserError: it has none.
          CorruptDataError: what describes the graph is not what was written.
        """
        self._manifest = dataset.manifest
        if naming.TRANSFORM not in dataset.manifest.files:
            raise UserError(
                f"transform=True: {dataset.manifest.name} {dataset.manifest.version} has no transform graph; it is"
                " made with --transform or --module_file"
            )
        if dataset.manifest.configuration.get("materialize"):
            raise UserError(
                f"transform=True: the examples of {dataset.manifest.name} {dataset.manifest.version} are transformed"
                " already, by --materialize; leave it out"
            )
        from shardmill.metadata.schema import from_pbtxt  # late: it needs protobuf, which most data sets do not

        raw = from_pbtxt(_text(dataset, _RAW))
        outputs = TransformFile.from_json(_text(dataset, naming.TRANSFORM), naming.TRANSFORM).outputs
        self._features = _outputs(raw, from_pbtxt(_text(dataset, _TRANSFORMED)), outputs, dataset.manifest)
        self._spec = to_spec(raw, {})
        self._model = tf.saved_model.load(f"{dataset.directory}/{_MODEL}")  # held, for its tables go with it

    @property
    def manifest(self) -> Manifest:
        """The data set's manifest, with the features of transformed examples."""
        return replace(self._manifest, features=self._features)

    def __call__(self, records: Any, features: Features, defaults: Mapping[str, Any]) -> Tensors:
        """Those of `features` of a batch of serialized examples; lists are ragged, and what is missing `defaults`'."""
        values = self._model.transform_fn(tf.io.parse_example(records, self._spec))
        return {feature.name: _given(feature, values[feature.name], defaults) for feature in features}


def _text(dataset: Dataset, name: str) -> str:
    try:
        return dataset.metadata(name).decode()
    except FileNotFoundError:
        raise CorruptDataError(f"{dataset.directory}/{name} is missing") from None


def _outputs(
    raw: Features, transformed: Features, outputs: tuple[TransformedOutput, ...], manifest: Manifest
) -> Features:
    """The features of transformed examples, in the order of `outputs`.

    The schema says of one value that may be missing, as of a list, that there is any number of them.
    """
    by_name = {feature.name: feature for feature in transformed}
    of_raw = {feature.name: feature for feature in raw}
    described = {feature.name: feature for feature in manifest.features}
    found = []
    for output in outputs:
        feature = by_name[output.name]
        if not feature.required:
            feature = replace(feature, shape=(None,) if _is_list(output, of_raw) else ())
        before = described.get(output.feature or output.name)
        if before is not None and before.kind in _DECODED and output.feature and not output.steps:
            found.append(replace(before, name=output.name))
            continue
        of_itself = before is not None and (not output.steps or output.name == output.feature)
        role = before.role if before is not None and of_itself else "input"
        found.append(replace(feature, kind="tensor", class_names=(), role=role))
    return tuple(found)


def _is_list(output: TransformedOutput, raw: Mapping[str, Feature]) -> bool:
    """Whether an output that is not dense is a list; what a module made is, for all that anybody knows."""
    return not output.feature or raw[output.feature].shape != () or any("tokenize" in step for step in output.steps)


def _given(feature: Feature, value: Any, defaults: Mapping[str, Any]) -> Any:
    if not isinstance(value, tf.SparseTensor):
        return value
    if feature.shape == ():
        column = tf.SparseTensor(value.indices, value.values, [value.dense_shape[0], 1])
        return tf.squeeze(tf.sparse.to_dense(column, tf.constant(defaults[feature.name], value.dtype)), 1)
    return tf.RaggedTensor.from_sparse(value)
