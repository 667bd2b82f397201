"""Features as a tensorflow-metadata Schema: what TFT, TFX and TFDV read.

See tensorflow_metadata/proto/v0/schema.proto. A dense feature has presence 1.0 and a fixed shape, which
`tensorflow_transform.tf_metadata.schema_utils.schema_as_feature_spec` turns into a FixedLenFeature; all others become
VarLenFeature, flat. What a Schema has no field for stands in a feature's annotation: `shape:-1,4` where the values have
more than one dimension but no fixed number, and `shape:28,28` with `element:uint8` for an array, which is a single
bytes.
"""

import math

from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from shardmill.features.feature import DType, Feature, Features
from shardmill.kinds.notes import notes_of, shape_note, shape_of
from shardmill.kinds.registry import KINDS, kind_of
from shardmill.metadata.asked_schema import with_asked
from shardmill.metadata.time_domains import set_unit, unit_of

_TYPES: dict[DType, int] = {"int64": schema_pb2.INT, "float32": schema_pb2.FLOAT, "bytes": schema_pb2.BYTES}


def to_schema(features: Features) -> schema_pb2.Schema:
    """The Schema proto of `features`, in their order."""
    schema = schema_pb2.Schema()
    for feature in features:
        _add(schema.feature.add(), feature)
    return schema


def to_pbtxt(features: Features, asked: str = "") -> str:
    """The text of `schema.pbtxt`, with what is `asked` of the features beside, see shardmill.metadata.asked_schema."""
    return text_format.MessageToString(with_asked(to_schema(features), asked), as_utf8=True)


def from_pbtxt(text: str) -> Features:
    """The features in the text of a `schema.pbtxt`, ours or another's, in its order.

    Raises:
      google.protobuf.text_format.ParseError: it is not the text of a Schema.
      ValueError: a feature is of a kind that an Example cannot hold; the message names it.
    """
    return tuple(_feature(proto) for proto in text_format.Parse(text, schema_pb2.Schema()).feature)


def _feature(proto: schema_pb2.Feature) -> Feature:
    dtype = next((name for name, type_ in _TYPES.items() if type_ == proto.type), None)
    if dtype is None:
        found = schema_pb2.FeatureType.Name(proto.type)
        raise ValueError(f"feature {proto.name!r} is of type {found}; expected INT, FLOAT or BYTES")
    shape: tuple[int | None, ...] = tuple(None if dim.size < 0 else dim.size for dim in proto.shape.dim)
    if not proto.HasField("shape"):
        count = proto.value_count
        fixed = count.min if count.min == count.max > 0 else None  # an empty one asks for nothing
        shape = () if fixed == 1 else (fixed,)
    required = proto.presence.min_fraction == 1.0
    notes = notes_of(proto)
    if "shape" in notes and not proto.HasField("shape"):
        shape = shape_of(notes["shape"])
    plain = Feature(proto.name, dtype, "tensor", shape, required, time=unit_of(proto))
    found = (kind.from_schema(proto, plain, notes) for kind in KINDS.values())
    return next(feature for feature in found if feature is not None)


def _add(proto: schema_pb2.Feature, feature: Feature) -> None:
    proto.name = feature.name
    proto.type = _TYPES[feature.dtype]
    if feature.required:
        proto.presence.min_fraction = 1.0
        proto.presence.min_count = 1
    shape = feature.list_shape
    if feature.required and None not in shape:
        proto.shape.SetInParent()
        for size in shape:
            proto.shape.dim.add(size=size)
    elif None not in shape:
        proto.value_count.min = proto.value_count.max = math.prod(size for size in shape if size is not None)
    if feature.is_packed or (len(shape) > 1 and not feature.is_dense):
        proto.annotation.tag.append(shape_note(feature))
    set_unit(proto, feature.time)
    kind_of(feature).annotate(proto, feature)
