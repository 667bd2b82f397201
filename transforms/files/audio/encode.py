"""From references to WAV files to framed examples: read, check, decode if asked, serialize. Pure but for reading the
files."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple, dataclass

from shardmill.features.renames import NO_RENAMES, Renames
from shardmill.media.wav import Wav, WavError, read_header, samples
from shardmill.records import example
from shardmill.transforms.examples.encode import MAX_RECORD_BYTES
from shardmill.transforms.files.audio.decodable import is_decodable
from shardmill.transforms.files.audio.stats import AudioStats
from shardmill.transforms.files.encode import Encoded, FileEncoder
from shardmill.transforms.files.noted_columns import Columns
from shardmill.transforms.stores import storage


@dataclass(frozen=True)
class AudioEncoder(FileEncoder):
    """Encodes references as tf.train.Example: audio, label, filename, sample_rate, channels, frames, then a manifest's
    columns.

    Attributes:
      root: the folder that names are relative to.
      decode: whether samples are stored as float32, rather than the file's bytes.
      renames: what the features are called.
      columns: of a manifest.
    """

    refusal = WavError
    feature = "audio"

    root: str
    decode: bool = False
    renames: Renames = NO_RENAMES
    columns: Columns = ()

    def encode_file(self, path: str, data: bytes | None = None) -> Encoded:
        """Read a file, check its header, decode it if asked."""
        data = storage.read_bytes(path) if data is None else data
        wav = read_header(data)
        if self.decode and (decoded := wav.frames * wav.channels * 4) > MAX_RECORD_BYTES:
            raise WavError(f"{decoded:,} bytes of float32 samples; an example holds {MAX_RECORD_BYTES:,} at most")
        value = samples(data, wav).astype("<f4").tobytes() if self.decode else data
        return self._encoded(value, wav, is_decodable(data))

    def remember(self, encoded: Encoded) -> str:
        """What the header says, and whether tf.audio.decode_wav takes the file."""
        wav, decodable = encoded.seen
        return json.dumps([*astuple(wav), decodable])

    def recall(self, value: bytes, seen: str, record: bytes = b"") -> Encoded:
        """As the base says."""
        *header, decodable = json.loads(seen)
        return self._encoded(value, Wav(*header), decodable)

    def _encoded(self, value: bytes, wav: Wav, decodable: bool) -> Encoded:
        numbers = (("sample_rate", wav.sample_rate), ("channels", wav.channels), ("frames", wav.frames))
        entries = (example.entry(self.renames(name), example.int64_feature([number])) for name, number in numbers)
        return Encoded(value, b"".join(entries), (wav, decodable))

    def entry_header(self, name: str, size: int) -> bytes:
        """That of a list of floats for samples."""
        return example.floats_entry_header(name, size) if self.decode else super().entry_header(name, size)

    def count(self, files: Sequence[Encoded], labels: Counter[int]) -> AudioStats:
        """The statistics of some files."""
        stats = AudioStats(labels=labels)
        for file in files:
            wav, decodable = file.seen
            stats.add(wav, len(file.value), decodable)
        return stats
