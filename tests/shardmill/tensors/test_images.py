"""Images are scaled to the values that tf.image.resize gives, whichever way is fastest."""

import numpy as np
import pytest

from shardmill.reading.tensor_examples import ImageDecoder
from tests.support.later import Later

tf = Later("tensorflow")

SIZE = (24, 20)


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("side", [7, 43, 44, 300])  # 4 * 24 * 20 is 1,920 pixels: more than 43 x 43, less than 44 x 44
@pytest.mark.parametrize("channels", [1, 3])
def test_scaling(side: int, is_known: bool, antialias: bool, channels: int) -> None:
    pixels = np.random.default_rng(side).integers(0, 256, (side, side, channels), np.uint8)
    decode = ImageDecoder("float32", channels, SIZE, (side, side) if is_known else None, antialias)

    found = tf.function(lambda data: decode(data))(tf.io.encode_png(pixels))

    assert found.shape == (*SIZE, channels)
    # As a function too: TensorFlow multiplies there where it is told to divide.
    expected = tf.function(lambda image: tf.image.resize(image, SIZE, antialias=antialias) / 255.0)(pixels)
    assert np.array_equal(found, expected)
