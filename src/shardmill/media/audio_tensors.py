"""WAV files to tensors of samples."""

from typing import Any

from shardmill.features.feature import Feature
from shardmill.installation.lazy_tensorflow import tf
from shardmill.media.wav import decode


def decode_wav(feature: Feature, data: Any) -> Any:
    """A scalar string tensor to float32 samples: (frames,) where all files have one channel, else (frames, channels).

    With tf.audio.decode_wav, where it takes all files of the data set: those of 16-bit PCM. Others are decoded by NumPy
    in this process, to the same scale.
    """
    if feature.encoding == "pcm16":
        samples = tf.audio.decode_wav(data).audio
    else:
        samples = tf.numpy_function(lambda file: decode(file, 0), [data], tf.float32, stateful=False)
    samples = tf.ensure_shape(samples, (None, feature.channels or None))
    return samples[:, 0] if feature.channels == 1 else samples
