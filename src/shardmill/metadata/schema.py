"""Convert features to and from TensorFlow Metadata schemas, and class names to label maps."""

import math
from collections.abc import Callable, Sequence

from google.protobuf import text_encoding, text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from shardmill.data.feature_kind import NOTE_PATTERN, parse_shape_note, read_notes, shape_note
from shardmill.data.features import DType, Feature, Features, TimeUnit
from shardmill.data.kinds import KINDS, kind_of

_FORMATS: dict[TimeUnit, int] = {
    "s": schema_pb2.TimeDomain.UNIX_SECONDS,
    "ms": schema_pb2.TimeDomain.UNIX_MILLISECONDS,
    "us": schema_pb2.TimeDomain.UNIX_MICROSECONDS,
    "ns": schema_pb2.TimeDomain.UNIX_NANOSECONDS,
}


def _time_unit_of(proto: schema_pb2.Feature) -> TimeUnit:
    if proto.type != schema_pb2.INT or not proto.HasField("time_domain"):
        return ""
    return next((unit for unit, number in _FORMATS.items() if number == proto.time_domain.integer_format), "")


_FIELDS_NAMING_FEATURES = ("sparse_feature", "weighted_feature", "tensor_representation_group")


def schema_requests(text: str, rename: Callable[[str], str] = str) -> str:
    """Return the parts of a schema.pbtxt beyond the descriptions of its features, which `rename` renames; "" if none.

    Raise a ParseError if `text` is not a schema.
    """
    schema = text_format.Parse(text, schema_pb2.Schema())
    requests = schema_pb2.Schema()
    requests.CopyFrom(schema)
    del requests.feature[:]
    for feature in schema.feature:
        _strip_description(feature)
        if len(feature.ListFields()) > 1:  # more than its name
            feature.name = rename(feature.name)
            requests.feature.append(feature)
    return text_format.MessageToString(requests, as_utf8=True)


def unsupported_time_units(requests: str) -> dict[str, str]:
    """Return, by feature, the requested time units that shardmill does not support, such as UNIX_DAYS."""
    units = schema_pb2.TimeDomain
    return {
        feature.name: units.IntegerTimeFormat.Name(feature.time_domain.integer_format)
        for feature in text_format.Parse(requests, schema_pb2.Schema()).feature
        if feature.time_domain.integer_format != units.FORMAT_UNKNOWN and not _time_unit_of(feature)
    }


def _strip_description(feature: schema_pb2.Feature) -> None:
    """Remove from a schema's feature what only repeats shardmill's own description of it."""
    if _time_unit_of(feature):
        feature.ClearField("time_domain")
    for field in ("type", "shape", "bool_domain", "image_domain"):
        feature.ClearField(field)
    if feature.presence.min_fraction == 1.0 and feature.presence.min_count <= 1:
        feature.ClearField("presence")
    if feature.value_count.min == feature.value_count.max:
        feature.ClearField("value_count")
    if feature.int_domain.is_categorical:
        feature.ClearField("int_domain")
    tags = [tag for tag in feature.annotation.tag if not NOTE_PATTERN.fullmatch(tag)]
    del feature.annotation.tag[:]
    feature.annotation.tag.extend(tags)
    if not feature.annotation.ListFields():
        feature.ClearField("annotation")


def merge_requests(schema: schema_pb2.Schema, requests: str) -> schema_pb2.Schema:
    """Return a dataset's schema merged with `requests` of `schema_requests`, except for features that it lacks."""
    merged = text_format.Parse(requests, schema_pb2.Schema())
    feature_requests = {feature.name: feature for feature in merged.feature}
    if feature_requests.keys() - {feature.name for feature in schema.feature}:
        for field in _FIELDS_NAMING_FEATURES:
            merged.ClearField(field)
    del merged.feature[:]
    for feature in schema.feature:
        merged.feature.append(_merge_feature_requests(feature, feature_requests.get(feature.name)))
    return merged


def _merge_feature_requests(feature: schema_pb2.Feature, requests: schema_pb2.Feature | None) -> schema_pb2.Feature:
    if requests is None:
        return feature
    merged = schema_pb2.Feature()
    merged.CopyFrom(requests)
    domain = requests.WhichOneof("domain_info")
    if domain is not None and feature.WhichOneof("domain_info") is not None:
        merged.ClearField(domain)
    merged.MergeFrom(feature)
    if requests.presence.min_count > feature.presence.min_count:
        merged.presence.min_count = requests.presence.min_count
    return merged


_TYPES: dict[DType, int] = {"int64": schema_pb2.INT, "float32": schema_pb2.FLOAT, "bytes": schema_pb2.BYTES}


def to_schema(features: Features) -> schema_pb2.Schema:
    """Return the Schema proto of `features`, in their order."""
    schema = schema_pb2.Schema()
    for feature in features:
        _add_feature(schema.feature.add(), feature)
    return schema


def to_pbtxt(features: Features, requests: str = "") -> str:
    """Return the text of `schema.pbtxt`, merged with `requests` of `schema_requests`."""
    return text_format.MessageToString(merge_requests(to_schema(features), requests), as_utf8=True)


def from_pbtxt(text: str) -> Features:
    """Parse the features in a `schema.pbtxt`, from shardmill or others, in its order.

    Raise a ParseError if `text` is not a schema. Raise a ValueError if an Example cannot hold a feature's type; the
    message names the feature.
    """
    return tuple(_parse_feature(proto) for proto in text_format.Parse(text, schema_pb2.Schema()).feature)


def _parse_feature(proto: schema_pb2.Feature) -> Feature:
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
    notes = read_notes(proto)
    if "shape" in notes and not proto.HasField("shape"):
        shape = parse_shape_note(notes["shape"])
    plain = Feature(proto.name, dtype, "tensor", shape, required, time=_time_unit_of(proto))
    found = (kind.from_schema(proto, plain, notes) for kind in KINDS.values())
    return next(feature for feature in found if feature is not None)


def _add_feature(proto: schema_pb2.Feature, feature: Feature) -> None:
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
    if feature.time:
        proto.time_domain.integer_format = _FORMATS[feature.time]
    kind_of(feature).annotate(proto, feature)


def to_label_map(class_names: Sequence[str]) -> str:
    """Return the label map's text; id 0 is the background and is left out."""
    return "".join(
        f'item {{\n  id: {number}\n  name: "{text_encoding.CEscape(name, as_utf8=True)}"\n}}\n'
        for number, name in enumerate(class_names)
        if number
    )
