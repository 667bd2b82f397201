"""What a Schema of tensorflow-metadata asks for beside what features are: comparators, domains, presence, constraints.

Who gives --schema wrote that by hand, and must find it again in the schema.pbtxt that is published, and in all that are
made like it.
"""

from collections.abc import Callable

from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from shardmill.kinds.notes import NOTE
from shardmill.metadata.time_domains import other_unit_of, unit_of

_OF_FEATURES = ("sparse_feature", "weighted_feature", "tensor_representation_group")  # which name features


def asked_of(text: str, renamed: Callable[[str], str] = str) -> str:
    """What the text of a schema.pbtxt asks for beyond what each feature is, which is written anyway; "" if nothing.

    Args:
      text: of a Schema, ours or another's.
      renamed: what a feature that it names is called.

    Raises:
      google.protobuf.text_format.ParseError: it is not the text of a Schema.
    """
    found = text_format.Parse(text, schema_pb2.Schema())
    asked = schema_pb2.Schema()
    asked.CopyFrom(found)
    del asked.feature[:]
    for feature in found.feature:
        _strip(feature)
        if len(feature.ListFields()) > 1:  # more than its name
            feature.name = renamed(feature.name)
            asked.feature.append(feature)
    return text_format.MessageToString(asked, as_utf8=True)


def other_units(asked: str) -> dict[str, str]:
    """The units of times that a Schema asks for and no feature has, such as UNIX_DAYS, by feature."""
    found = text_format.Parse(asked, schema_pb2.Schema())
    return {feature.name: unit for feature in found.feature if (unit := other_unit_of(feature))}


def _strip(feature: schema_pb2.Feature) -> None:
    """Leave out what says no more than what the feature is."""
    if unit_of(feature):
        feature.ClearField("time_domain")
    feature.ClearField("type")
    feature.ClearField("shape")
    if feature.presence.min_fraction == 1.0 and feature.presence.min_count <= 1:
        feature.ClearField("presence")
    if feature.value_count.min == feature.value_count.max:
        feature.ClearField("value_count")
    if feature.int_domain.is_categorical:
        feature.ClearField("int_domain")
    feature.ClearField("bool_domain")
    feature.ClearField("image_domain")
    tags = [tag for tag in feature.annotation.tag if not NOTE.fullmatch(tag)]
    del feature.annotation.tag[:]
    feature.annotation.tag.extend(tags)
    if not feature.annotation.ListFields():
        feature.ClearField("annotation")


def with_asked(made: schema_pb2.Schema, asked: str) -> schema_pb2.Schema:
    """The Schema of a data set's features with what is asked of them, see `asked_of`; but for what is asked of features
    that are left out."""
    whole = text_format.Parse(asked, schema_pb2.Schema())
    of_feature = {feature.name: feature for feature in whole.feature}
    if of_feature.keys() - {feature.name for feature in made.feature}:
        for field in _OF_FEATURES:
            whole.ClearField(field)
    del whole.feature[:]
    for feature in made.feature:
        whole.feature.append(_with_asked(feature, of_feature.get(feature.name)))
    return whole


def _with_asked(made: schema_pb2.Feature, asked: schema_pb2.Feature | None) -> schema_pb2.Feature:
    if asked is None:
        return made
    whole = schema_pb2.Feature()
    whole.CopyFrom(asked)
    domain = asked.WhichOneof("domain_info")
    if domain is not None and made.WhichOneof("domain_info") is not None:
        whole.ClearField(domain)
    whole.MergeFrom(made)
    if asked.presence.min_count > made.presence.min_count:
        whole.presence.min_count = asked.presence.min_count
    return whole
