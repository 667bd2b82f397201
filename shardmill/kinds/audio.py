"""`audio`: the bytes of WAV files, or their samples as float32."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from shardmill.example import FeatureValue
from shardmill.features import Feature
from shardmill.kinds import tfds_entries
from shardmill.kinds.base import Entry, FeatureKind
from shardmill.wav import WavError, read_header

# What TFDS's decoder, pydub, makes of them: 32 bits of 24.
_INTEGERS = {"pcm8": "int8", "pcm16": "int16", "pcm24": "int32", "pcm32": "int32"}


class AudioKind(FeatureKind):
    """Sounds of any length."""

    name = "audio"
    input_rank = 2
    in_columns = False

    def tfds(self, feature: Feature) -> Entry:
        """An Audio, which for files has one number of channels and one integer type; else the bytes."""
        shape: tuple[int | None, ...] = feature.shape
        audio: dict[str, Any] = {"dtype": "float32"}
        if feature.is_wav:
            if not feature.channels or feature.encoding not in _INTEGERS:
                return super().tfds(feature)
            shape = (None,) if feature.channels == 1 else (None, feature.channels)
            audio = {"dtype": _INTEGERS[feature.encoding], "fileFormat": "wav", "lazyDecode": True}
        if feature.sample_rate:
            audio["sampleRate"] = str(feature.sample_rate)
        dimensions = ["-1" if size is None else str(size) for size in shape]
        content = {"shape": {"dimensions": dimensions}, **audio, "encoding": "none"}
        return {"pythonClassName": f"{tfds_entries.PACKAGE}.audio_feature.Audio", "audio": content}

    def from_schema(self, proto: Any, plain: Feature, notes: Mapping[str, str]) -> Feature | None:
        """None: a Schema does not tell."""
        return None

    def value_faults(self, feature: Feature, values: FeatureValue) -> list[str]:
        """Files that are no WAV files."""
        faults = []
        for data in cast(Sequence[bytes], values) if feature.is_wav else ():
            try:
                read_header(data)
            except WavError as error:
                faults.append(f"feature {feature.name!r}: {error}")
        return faults

    def words(self, feature: Feature) -> str:
        """The sample rate, and the encoding of files, where all have one."""
        rate = f"{feature.sample_rate:,} Hz" if feature.sample_rate else "of several rates"
        return f"audio, {rate}" + (f", {feature.encoding or 'of several encodings'}" if feature.is_wav else "")
