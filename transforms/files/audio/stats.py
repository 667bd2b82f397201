"""Statistics of WAV files: how many of what sort, and how long; exact, in whatever order they are merged."""

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction

from shardmill.media.wav import Wav
from shardmill.statistics.feature_summary import FeatureSummary
from shardmill.transforms.statistics.files import ClassNames, label_summaries
from shardmill.transforms.statistics.number_stats import NumberStats


@dataclass(slots=True)
class AudioStats:
    """Statistics of some WAV files.

    Attributes:
      sizes: in bytes, as stored.
      frames: of each.
      encodings, channels, labels: files by theirs.
      rates: frames by their sample rate.
      odd: files by the encoding that tf.audio.decode_wav refuses, 16-bit PCM among other chunks too.
    """

    sizes: NumberStats = field(default_factory=NumberStats)
    frames: NumberStats = field(default_factory=NumberStats)
    encodings: Counter[str] = field(default_factory=Counter)
    channels: Counter[int] = field(default_factory=Counter)
    rates: Counter[int] = field(default_factory=Counter)
    odd: Counter[str] = field(default_factory=Counter)
    labels: Counter[int] = field(default_factory=Counter)

    def add(self, wav: Wav, size_bytes: int, decodable: bool) -> None:
        """Count a file."""
        self.sizes.add([size_bytes])
        self.frames.add([wav.frames])
        self.encodings[wav.encoding] += 1
        self.channels[wav.channels] += 1
        self.rates[wav.sample_rate] += wav.frames
        if not decodable:
            self.odd[wav.encoding] += 1

    def merge(self, other: "AudioStats") -> None:
        """Add what `other` counted."""
        self.sizes.merge(other.sizes)
        self.frames.merge(other.frames)
        self.encodings.update(other.encodings)
        self.channels.update(other.channels)
        self.rates.update(other.rates)
        self.odd.update(other.odd)
        self.labels.update(other.labels)

    def label_counts(self, feature: str) -> Counter[int]:
        """Files by class id; `label` is the only class label there is."""
        return self.labels

    def summary(self, class_names: ClassNames) -> dict[str, FeatureSummary]:
        """What stands in stats.json for a split: statistics by feature."""
        seconds = sum((Fraction(frames, rate) for rate, frames in self.rates.items()), Fraction(0))
        return {
            "audio": FeatureSummary(
                encodings=dict(sorted(self.encodings.items())),
                seconds=float(seconds),
                size_bytes=self.sizes.summary(),
            ),
            **label_summaries(self.labels, class_names),
            "sample_rate": FeatureSummary(frames_by_rate=dict(sorted(self.rates.items()))),
            "channels": FeatureSummary(files_by_channels=dict(sorted(self.channels.items()))),
            "frames": self.frames.feature(),
        }
