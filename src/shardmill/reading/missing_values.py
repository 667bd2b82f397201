"""What stands for a missing value: the reader's `defaults`, checked against the features."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from shardmill.errors import UserError
from shardmill.features.arrays import fixed_sizes
from shardmill.features.feature import DType, Feature, Features


def check_defaults(features: Features, defaults: Mapping[str, Any], known: Features) -> dict[str, Any]:
    """The default of each of `features` that has one: of its shape and type, bytes for text; one value for lists of any
    length.

    An array's is an array of its elements.

    Args:
      features: those that are read.
      defaults: by name; one value may stand for all of a list or an array.
      known: those that could be read, and for which a default does no harm.

    Raises:
      UserError: a default for no feature, or one that its feature cannot hold.
    """
    names = [feature.name for feature in known]
    for name in defaults:
        if name not in names:
            raise UserError(f"defaults names {name!r}, which is no feature; there are {', '.join(names)}")
    return {feature.name: _value(feature, defaults[feature.name]) for feature in features if feature.name in defaults}


def check_complete(features: Features, defaults: Mapping[str, Any]) -> None:
    """Check that every feature that may be missing has a default, or is a list of any length, which may be empty.

    Raises:
      UserError: one has none; the message says what to give.
    """
    lacking = [
        feature
        for feature in features
        if not feature.required and None not in feature.shape and feature.name not in defaults
    ]
    if lacking:
        wanted = ", ".join(f"{feature.name!r}: {_example(feature)}" for feature in lacking)
        what = "is a feature that some examples lack" if len(lacking) == 1 else "are features that some examples lack"
        raise UserError(
            f"{', '.join(feature.name for feature in lacking)} {what}; say what stands for a missing value, "
            f"defaults={{{wanted}}} for instance, or choose others with features=[…]"
        )


_EXAMPLES: dict[DType, str] = {"int64": "0", "float32": "0.0", "bytes": "''"}


def _example(feature: Feature) -> str:
    return "0" if feature.is_packed else _EXAMPLES[feature.dtype]


def _value(feature: Feature, value: Any) -> Any:
    shape = () if None in feature.shape else fixed_sizes(feature)
    if feature.is_packed:
        array = _numbers(feature, value, np.dtype(feature.element))
    elif feature.dtype == "bytes":
        array = np.array(value, object)
        if not all(isinstance(item, (str, bytes)) for item in array.flat):
            raise UserError(f"the default {value!r} of feature {feature.name!r} is no text")
        array = np.array([item.encode() if isinstance(item, str) else item for item in array.flat], object).reshape(
            array.shape
        )
    else:
        array = _numbers(feature, value, np.dtype(feature.dtype))
    if array.shape not in ((), shape):
        raise UserError(
            f"the default {value!r} of feature {feature.name!r} has shape {array.shape}; expected {shape} or one value"
        )
    return np.broadcast_to(array, shape)[()] if shape == () else np.broadcast_to(array, shape)


def _numbers(feature: Feature, value: Any, dtype: np.dtype[Any]) -> np.ndarray:
    try:
        array = np.array(value, dtype)
        fits = dtype.kind in "fc" or bool(np.all(array == np.array(value)))
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        raise UserError(f"the default {value!r} of feature {feature.name!r} is no {dtype}")
    return array
