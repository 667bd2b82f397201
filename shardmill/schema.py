"""Features as a tensorflow-metadata Schema: what TFT, TFX and TFDV read.

See tensorflow_metadata/proto/v0/schema.proto. A dense feature has presence 1.0 and a fixed shape, which
`tensorflow_transform.tf_metadata.schema_utils.schema_as_feature_spec` turns into a FixedLenFeature; all others become
VarLenFeature.
"""

from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from shardmill.features import DType, Feature, Features, Kind

_TYPES: dict[DType, int] = {"int64": schema_pb2.INT, "float32": schema_pb2.FLOAT, "bytes": schema_pb2.BYTES}


def to_schema(features: Features) -> schema_pb2.Schema:
    """The Schema proto of `features`, in their order."""
    schema = schema_pb2.Schema()
    for feature in features:
        _add(schema.feature.add(), feature)
    return schema


def to_pbtxt(features: Features) -> str:
    """The text of `schema.pbtxt`."""
    return text_format.MessageToString(to_schema(features), as_utf8=True)


def from_pbtxt(text: str) -> Features:
    """The features in the text of a `schema.pbtxt`, ours or another's, in its order.

    Raises:
      google.protobuf.text_format.ParseError: it is not the text of a Schema.
      ValueError: a feature is of a kind that an Example cannot hold, or has more than one dimension; the message names it.
    """
    return tuple(_feature(proto) for proto in text_format.Parse(text, schema_pb2.Schema()).feature)


def _feature(proto: schema_pb2.Feature) -> Feature:
    dtype = next((name for name, type_ in _TYPES.items() if type_ == proto.type), None)
    if dtype is None:
        found = schema_pb2.FeatureType.Name(proto.type)
        raise ValueError(f"feature {proto.name!r} is of type {found}; expected INT, FLOAT or BYTES")
    shape: tuple[int | None, ...] = tuple(dim.size for dim in proto.shape.dim)
    if not proto.HasField("shape"):
        count = proto.value_count
        fixed = count.min if count.min == count.max and proto.HasField("value_count") else None
        shape = () if fixed == 1 else (fixed,)
    required = proto.presence.min_fraction == 1.0
    if proto.HasField("image_domain"):
        return Feature(proto.name, "bytes", "image", shape, required)
    if dtype == "int64" and proto.int_domain.is_categorical:
        # How many classes there are is known, but not their names, which stand in a labels file.
        return Feature(proto.name, "int64", "class_label", shape, required, ("",) * (proto.int_domain.max + 1))
    kind: Kind = "bool" if proto.HasField("bool_domain") else "text" if dtype == "bytes" and not shape else "tensor"
    return Feature(proto.name, dtype, kind, shape, required)


def _add(proto: schema_pb2.Feature, feature: Feature) -> None:
    proto.name = feature.name
    proto.type = _TYPES[feature.dtype]
    if feature.required:
        proto.presence.min_fraction = 1.0
        proto.presence.min_count = 1
    if feature.is_dense:
        proto.shape.SetInParent()
        for size in feature.shape:
            proto.shape.dim.add(size=size)
    elif feature.shape and feature.shape[0] is not None:
        proto.value_count.min = proto.value_count.max = feature.shape[0]
    elif not feature.shape:
        proto.value_count.min = proto.value_count.max = 1
    if feature.kind == "class_label":
        proto.int_domain.min = 0
        proto.int_domain.max = len(feature.class_names) - 1
        proto.int_domain.is_categorical = True
    elif feature.kind == "bool":
        proto.bool_domain.SetInParent()
    elif feature.kind == "image":
        proto.image_domain.SetInParent()
