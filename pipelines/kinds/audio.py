"""`shardmill audio`: WAV files, a file an example."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from shardmill.pipelines.config.listed_files import ListedFilesConfig, tree_flag
from shardmill.pipelines.kinds.kind import Kind
from shardmill.transforms.inputs.file_kind import AUDIO, FileKind
from shardmill.transforms.options.declare import flag

if TYPE_CHECKING:
    from shardmill.features.feature import Features
    from shardmill.pipelines.graphs.files import FileRoute
    from shardmill.pipelines.graphs.jobs import Job
    from shardmill.transforms.inputs.summary import InputSummary
    from shardmill.transforms.layout.files import Layout
    from shardmill.transforms.statistics.files import SplitStats

RESERVED = ("audio", "filename", "sample_rate", "channels", "frames")  # features, which a column cannot also be


@dataclass(frozen=True, kw_only=True)
class AudioConfig(ListedFilesConfig):
    """What `shardmill audio` is told."""

    title: ClassVar[str] = "audio"

    input: str | None = tree_flag("wav")
    decode_audio: bool = flag(False, "store float32 samples in [-1, 1], not the files' bytes")

    @property
    def format_name(self) -> str:
        """As the base says."""
        return "audio"

    @property
    def kind(self) -> FileKind:
        """The files that a folder is searched for."""
        return AUDIO


def audio_route(config: AudioConfig) -> "FileRoute":
    """How WAV files are found, read and described."""
    from shardmill.pipelines.graphs.files import FileRoute, find_files
    from shardmill.transforms.files.audio.encode import AudioEncoder

    encoder = AudioEncoder(config.root, config.decode_audio, config.renames)
    of_layout = encoder.of_layout if config.manifest else None
    describe = partial(_describe, decoded=config.decode_audio)
    return FileRoute(find_files(config, RESERVED), encoder, describe, encoder_of=of_layout)


def _describe(
    summary: "InputSummary", layout: "Layout", stats: "Sequence[SplitStats]", decoded: bool
) -> "tuple[Features, Sequence[str]]":
    from shardmill.transforms.files.audio.features import audio_features, audio_notices
    from shardmill.transforms.files.audio.stats import AudioStats

    total = AudioStats()
    for of_split in stats:
        if isinstance(of_split, AudioStats):
            total.merge(of_split)
    return audio_features(layout, summary.records, total, decoded), audio_notices(total, decoded)


def _job(config: AudioConfig) -> "Job":
    from shardmill.pipelines.graphs.jobs import file_job

    return file_job(config, audio_route(config))


KINDS = (
    Kind(
        "audio",
        "turn WAV files into TFRecord shards",
        "Turn a tree of WAV files, or a manifest that lists them, into balanced, shuffled TFRecord shards.",
        AudioConfig,
        _job,
    ),
)
