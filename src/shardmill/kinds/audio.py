"""`audio`: the bytes of WAV files, or their samples as float32."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from shardmill.features.feature import Feature
from shardmill.kinds import tfds_entries
from shardmill.kinds.base import Entry, FeatureKind
from shardmill.media.audio_tensors import decode_wav
from shardmill.media.wav import WavError, decode, read_header
from shardmill.records.example import FeatureValue

# What TFDS's decoder, pydub, makes of them: 32 bits of 24.
_INTEGERS = {"pcm8": "int8", "pcm16": "int16", "pcm24": "int32", "pcm32": "int32"}


class AudioKind(FeatureKind):
    """Sounds of any length."""

    name = "audio"
    input_rank = 2
    in_columns = False
    bytes_are_strings = False

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

    def shown(self, feature: Feature, value: Any) -> str | None:
        """How long a file is, and of what sort."""
        if not feature.is_wav or not isinstance(value, bytes):
            return None
        try:
            wav = read_header(value)
        except WavError as error:
            return str(error)
        channels = f"{wav.channels} channel{'' if wav.channels == 1 else 's'}"
        return f"{wav.seconds:.2f} s at {wav.sample_rate:,} Hz, {channels}, {wav.encoding}"

    def amount(self, feature: Feature, number: int) -> str:
        """How long so many samples are."""
        if feature.is_wav or not feature.sample_rate or not feature.channels:
            return ""
        return f"{number / feature.channels / feature.sample_rate:.2f} s at {feature.sample_rate:,} Hz"

    def is_variable(self, feature: Feature) -> bool:
        """Files are of any length."""
        return feature.is_wav or super().is_variable(feature)

    def single(self, feature: Feature) -> Callable[[Any], Any] | None:
        """The samples of a file."""
        return partial(decode_wav, feature) if feature.is_wav else None

    def opened(self, feature: Feature, configuration: Mapping[str, Any]) -> Callable[[bytes], Any] | None:
        """The samples of a file."""
        return partial(decode, channels=feature.channels) if feature.is_wav else None

    def words(self, feature: Feature) -> str:
        """The sample rate, and the encoding of files, where all have one."""
        rate = f"{feature.sample_rate:,} Hz" if feature.sample_rate else "of several rates"
        return f"audio, {rate}" + (f", {feature.encoding or 'of several encodings'}" if feature.is_wav else "")
