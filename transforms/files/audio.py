"""Encode WAV files as examples, with their features and statistics."""

import io
import json
import struct
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import astuple, dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from shardmill.data import example
from shardmill.data.features import NO_RENAMES, Feature, Features, Renames
from shardmill.data.media import UnsupportedWavError, WavError, WavHeader, decode_samples, read_header
from shardmill.installed import install_hint
from shardmill.metadata.tfds_metadata import TFDS_CANNOT
from shardmill.quality.stats_file import FeatureSummary
from shardmill.transforms.columns.example_encoding import MAX_RECORD_BYTES
from shardmill.transforms.files import encoding as file_encoding
from shardmill.transforms.inputs.summary import InputSummary
from shardmill.transforms.statistics.files import ClassNames, SplitStats, summarize_labels
from shardmill.transforms.statistics.images import NumberStats
from shardmill.transforms.stores import storage

# Chunks that it skips before the fmt chunk; see tensorflow/core/lib/wav/wav_io.cc, whose steps these are.
_BEFORE = (b"JUNK", b"bext", b"iXML", b"qlty", b"mext", b"levl", b"link", b"axml")


def is_decodable(data: bytes) -> bool:
    """Return True if tf.audio.decode_wav takes a WAV file that `shardmill.data.media.read_header` accepted.

    It takes PCM of 16 bits, no extensible header and few chunks before the fmt chunk. It does not skip the padding byte
    after chunks of odd size.
    """
    try:
        offset = 12
        while (name := data[offset : offset + 4]) != b"fmt ":
            if name not in _BEFORE:
                return False
            offset = _find_chunk_end(data, offset)
        tag, bits = struct.unpack_from("<H", data, offset + 8)[0], struct.unpack_from("<H", data, offset + 22)[0]
        size = struct.unpack_from("<I", data, offset + 4)[0]
        if tag != 1 or bits != 16 or size not in (16, 18):
            return False
        offset, found = offset + 8 + size, 0
        while offset < len(data):
            found += data[offset : offset + 4] == b"data"
            offset = _find_chunk_end(data, offset)
    except (IndexError, struct.error):
        return False
    return found == 1


def _find_chunk_end(data: bytes, offset: int) -> int:
    end = int(offset + 8 + struct.unpack_from("<I", data, offset + 4)[0])
    if end > len(data):
        raise IndexError
    return end


def read_by_soundfile(data: bytes, problem: str) -> tuple[WavHeader, np.ndarray]:
    """Read a file that `read_header` does not support: its header, and float32 samples of shape (frames, channels).

    Raise a WavError that begins with the `problem` if soundfile is missing, or does not read the file.
    """
    try:
        import soundfile
    except (ImportError, OSError):  # the latter without its library of C
        raise WavError(f"{problem}; --decode_audio reads many such files; {install_hint('soundfile')}") from None
    try:
        with soundfile.SoundFile(io.BytesIO(data)) as file:
            samples: np.ndarray = file.read(dtype="float32", always_2d=True)
            header = WavHeader(file.subtype.lower(), file.channels, file.samplerate, len(samples), 0, len(data))
    except (soundfile.SoundFileError, ValueError, RuntimeError):
        raise WavError(f"{problem}; ffmpeg -i FILE NEW.wav makes a file that can be read") from None
    if not len(samples):
        raise WavError(f"{problem}; ffmpeg -i FILE NEW.wav makes a file that can be read")
    if samples.nbytes > MAX_RECORD_BYTES:
        raise WavError(f"{samples.nbytes:,} bytes of float32 samples; an example holds {MAX_RECORD_BYTES:,} at most")
    return header, samples


@dataclass(slots=True)
class AudioStats(file_encoding.LabelledStats):
    """Statistics of WAV files; exact in any order of merging."""

    sizes: NumberStats = field(default_factory=NumberStats)  # bytes as stored
    frames: NumberStats = field(default_factory=NumberStats)  # of each file
    encodings: Counter[str] = field(default_factory=Counter)  # files by encoding
    channels: Counter[int] = field(default_factory=Counter)  # files by number of channels
    rates: Counter[int] = field(default_factory=Counter)  # frames by sample rate
    # files that tf.audio.decode_wav refuses, by encoding; 16-bit PCM for unusual chunks
    odd: Counter[str] = field(default_factory=Counter)

    def add(self, wav: WavHeader, size_bytes: int, decodable: bool) -> None:
        """Count a file."""
        self.sizes.add([size_bytes])
        self.frames.add([wav.frames])
        self.encodings[wav.encoding] += 1
        self.channels[wav.channels] += 1
        self.rates[wav.sample_rate] += wav.frames
        if not decodable:
            self.odd[wav.encoding] += 1

    def summary(self, class_names: ClassNames) -> dict[str, FeatureSummary]:
        """Return a split's statistics by feature, as written to stats.json."""
        seconds = sum((Fraction(frames, rate) for rate, frames in self.rates.items()), Fraction(0))
        return {
            "audio": FeatureSummary(
                encodings=dict(sorted(self.encodings.items())), seconds=float(seconds), size_bytes=self.sizes.summary()
            ),
            **summarize_labels(self.labels, class_names),
            "sample_rate": FeatureSummary(frames_by_rate=dict(sorted(self.rates.items()))),
            "channels": FeatureSummary(files_by_channels=dict(sorted(self.channels.items()))),
            "frames": self.frames.feature_summary(),
        }


@dataclass(frozen=True)
class AudioEncoder(file_encoding.FileEncoder):
    """Encoder of WAV files as tf.train.Example, with the features sample_rate, channels and frames."""

    refusal = WavError
    feature = "audio"

    root: str  # folder that names are relative to
    decode: bool = False  # True to store samples as float32; else the file's bytes
    renames: Renames = NO_RENAMES  # of features
    columns: file_encoding.ManifestColumns = ()  # of a manifest

    def encode_file(self, path: str, data: bytes | None = None) -> file_encoding.Encoded:
        data = storage.read_bytes(path) if data is None else data
        try:
            wav = read_header(data)
        except UnsupportedWavError as error:
            wav, samples = read_by_soundfile(data, str(error))
            if self.decode:
                return self._make_encoded(samples.tobytes(), wav, True)
            raise WavError(f"{error}; --decode_audio stores its samples, as soundfile reads them") from None
        if self.decode and (decoded := wav.frames * wav.channels * 4) > MAX_RECORD_BYTES:
            raise WavError(f"{decoded:,} bytes of float32 samples; an example holds {MAX_RECORD_BYTES:,} at most")
        value = decode_samples(data, wav).astype("<f4").tobytes() if self.decode else data
        return self._make_encoded(value, wav, is_decodable(data))

    def remember(self, encoded: file_encoding.Encoded) -> str:
        """Return the header's values and whether tf.audio.decode_wav takes the file, as JSON."""
        wav, decodable = encoded.stats_data
        return json.dumps([*astuple(wav), decodable])

    def recall(self, value: bytes, remembered: str, record: bytes = b"") -> file_encoding.Encoded:
        *header, decodable = json.loads(remembered)
        return self._make_encoded(value, WavHeader(*header), decodable)

    def _make_encoded(self, value: bytes, wav: WavHeader, decodable: bool) -> file_encoding.Encoded:
        numbers = (("sample_rate", wav.sample_rate), ("channels", wav.channels), ("frames", wav.frames))
        entries = (
            example.encode_entry(self.renames(name), example.encode_int64_feature([number])) for name, number in numbers
        )
        return file_encoding.Encoded(value, b"".join(entries), (wav, decodable))

    def as_columns(self, encoded: file_encoding.Encoded) -> dict[str, Any]:
        """Return the file's bytes, or its float32 samples of shape (frames,) or (frames, channels), and its header."""
        wav: WavHeader = encoded.stats_data[0]
        value: Any = encoded.value
        if self.decode:
            shape = (wav.frames, wav.channels) if wav.channels > 1 else (wav.frames,)
            value = np.frombuffer(bytearray(value), "<f4").reshape(shape)
        header = {"sample_rate": wav.sample_rate, "channels": wav.channels, "frames": wav.frames}
        return {self.feature: value, **header}

    def entry_header(self, name: str, size: int) -> bytes:
        """Return the header of a list of floats if samples are stored."""
        # A packed list is on the wire what a list of one bytes is
        return (
            example.bytes_entry_header(name, size, example.FLOAT) if self.decode else super().entry_header(name, size)
        )

    def count(self, files: Sequence[file_encoding.Encoded], labels: Counter[int], _: object) -> AudioStats:
        stats = AudioStats(labels=labels)
        for file in files:
            wav, decodable = file.stats_data
            stats.add(wav, len(file.value), decodable)
        return stats

    def describe(
        self, summary: InputSummary, layout: Any, stats: Sequence[SplitStats] = (), for_tfds: bool = True
    ) -> tuple[Features, Sequence[str]]:
        total = AudioStats()
        for of_split in stats:
            if isinstance(of_split, AudioStats):
                total.merge(of_split)
        rate, channels = _find_single_value(total.rates) or 0, _find_single_value(total.channels) or 0
        if self.decode:
            shape = (None, channels) if channels > 1 else (None,)
            audio = Feature("audio", "float32", "audio", shape, sample_rate=rate, channels=channels)
        else:
            # Set an encoding only if tf.audio.decode_wav reads all 16-bit files, or none of them: readers rely on it.
            encoding = (_find_single_value(total.encodings) or "") if total.odd["pcm16"] == 0 else ""
            audio = Feature("audio", "bytes", "audio", encoding=encoding, sample_rate=rate, channels=channels)
        features = file_encoding.file_features(layout, summary.records, audio, ("sample_rate", "channels", "frames"))
        return features, audio_notices(total, self.decode)


REMEDY = "--decode_audio stores float32 samples, which every reader takes"


def audio_notices(stats: AudioStats, decoded: bool) -> list[str]:
    """Return notices about the files written."""
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


def _find_single_value(values: Collection[Any]) -> Any:
    return next(iter(values)) if len(values) == 1 else None
