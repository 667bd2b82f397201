"""The features of a data set of WAV files, from its layout and from what was written."""

from collections.abc import Iterable
from typing import TypeVar

from shardmill.features.feature import Feature, Features
from shardmill.transforms.files.audio.stats import AudioStats
from shardmill.transforms.files.features import TFDS_CANNOT, file_features
from shardmill.transforms.layout.files import Layout

T = TypeVar("T")
REMEDY = "--decode_audio stores float32 samples, which every reader takes"


def audio_features(layout: Layout, rows: int, stats: AudioStats, decoded: bool) -> Features:
    """The features, in the order in which shardmill.transforms.files.audio.encode writes them.

    Args:
      layout: class names and a manifest's columns.
      rows: records planned: a column with a value in each of them is required.
      stats: of the files written; what is the same in all of them is the feature's.
      decoded: whether samples are stored, not files.
    """
    rate, channels = _only(stats.rates) or 0, _only(stats.channels) or 0
    if decoded:
        shape = (None, channels) if channels > 1 else (None,)
        audio = Feature("audio", "float32", "audio", shape, sample_rate=rate, channels=channels)
    else:
        # An encoding is told only where tf.audio.decode_wav takes all files of 16 bits, or none: readers go by it.
        encoding = (_only(stats.encodings) or "") if stats.odd["pcm16"] == 0 else ""
        audio = Feature("audio", "bytes", "audio", encoding=encoding, sample_rate=rate, channels=channels)
    return file_features(layout, rows, audio, ("sample_rate", "channels", "frames"))


def audio_notices(stats: AudioStats, decoded: bool) -> list[str]:
    """What must be said of the files written."""
    notices = []
    if len(stats.rates) > 1:
        notices.append(
            f"the files have {len(stats.rates)} sample rates, {min(stats.rates):,} to {max(stats.rates):,} Hz; none is"
            " resampled: each example's is its `sample_rate`"
        )
    if len(stats.channels) > 1:
        flat = "; `audio` is flat, a frame's samples side by side: reshape it to (-1, channels)" if decoded else ""
        notices.append(f"the files have {min(stats.channels)} to {max(stats.channels)} channels{flat}")
    if decoded:
        return notices
    if stats.odd:
        kinds = ", ".join(f"{number:,} {name}" for name, number in sorted(stats.odd.items()))
        notices.append(
            f"tf.audio.decode_wav refuses {stats.odd.total():,} of the files ({kinds}): it takes PCM of 16 bits without"
            f" an extensible header or unusual chunks; shardmill.load and shardmill.examples decode them; {REMEDY}"
        )
    encodings = ", ".join(sorted(stats.encodings))
    if len(stats.channels) > 1 or len(stats.encodings) > 1 or "float32" in stats.encodings or stats.odd["pcm16"]:
        why = f"the files are {encodings}, of {' or '.join(map(str, sorted(stats.channels)))} channels"
        notices.append(f"{TFDS_CANNOT} the audio as one feature, for {why}; it gives each file's bytes; {REMEDY}")
    return notices


def _only(values: Iterable[T]) -> T | None:
    """The value that there is only one of."""
    found = list(values)
    return found[0] if len(found) == 1 else None
