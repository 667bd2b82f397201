"""Arrays as pictures: those of one or three channels, their values scaled from the least to the greatest."""

import io

import numpy as np
from PIL import Image

from shardmill.features import arrays
from shardmill.features.feature import Feature


def is_drawable(feature: Feature) -> bool:
    """Whether a feature holds arrays of one shape, (height, width), (height, width, 1) or (height, width, 3), of real
    numbers."""
    if not feature.is_packed or None in feature.shape or feature.element.startswith("complex"):
        return False
    return len(feature.shape) == 2 or (len(feature.shape) == 3 and feature.shape[2] in (1, 3))


def picture(feature: Feature, data: bytes) -> bytes:
    """A PNG of an array that can be drawn; what is no number is black. Empty if `data` are no such array."""
    try:
        values = arrays.from_bytes(feature, data).astype(np.float64)
    except ValueError:
        return b""
    if values.ndim == 3 and values.shape[2] == 1:
        values = values[:, :, 0]
    finite = np.isfinite(values)
    low, high = (values[finite].min(), values[finite].max()) if finite.any() else (0.0, 0.0)
    with np.errstate(over="ignore"):
        # Divided first: the span of float64 values may be beyond float64.
        span = high / 2 - low / 2
        scaled = (np.where(finite, values, low) / 2 - low / 2) / (span or 1.0) * 255
    out = io.BytesIO()
    Image.fromarray(np.round(scaled).astype(np.uint8)).save(out, "PNG")
    return out.getvalue()
