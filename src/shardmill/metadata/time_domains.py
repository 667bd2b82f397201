"""The unit of times in a Schema: `time_domain { integer_format: UNIX_MILLISECONDS }`, int64 since 1970 in UTC."""

from tensorflow_metadata.proto.v0 import schema_pb2

from shardmill.features.feature import TimeUnit

_FORMATS: dict[TimeUnit, int] = {
    "s": schema_pb2.TimeDomain.UNIX_SECONDS,
    "ms": schema_pb2.TimeDomain.UNIX_MILLISECONDS,
    "us": schema_pb2.TimeDomain.UNIX_MICROSECONDS,
    "ns": schema_pb2.TimeDomain.UNIX_NANOSECONDS,
}


def set_unit(proto: schema_pb2.Feature, unit: TimeUnit) -> None:
    """Say that a feature of a Schema is times in this unit; nothing of one that is none, ""."""
    if unit:
        proto.time_domain.integer_format = _FORMATS[unit]


def unit_of(proto: schema_pb2.Feature) -> TimeUnit:
    """What it says; "" of a feature that is no time, or in none of these units."""
    if proto.type != schema_pb2.INT or not proto.HasField("time_domain"):
        return ""
    return next((unit for unit, number in _FORMATS.items() if number == proto.time_domain.integer_format), "")


def other_unit_of(proto: schema_pb2.Feature) -> str:
    """The unit that it says, by its name in a Schema, where that is none of these, such as UNIX_DAYS; else \"\"."""
    number = proto.time_domain.integer_format
    if unit_of(proto) or number == schema_pb2.TimeDomain.FORMAT_UNKNOWN:
        return ""
    return schema_pb2.TimeDomain.IntegerTimeFormat.Name(number)
