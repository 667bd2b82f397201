"""`shardmill arrays` as a route of pipelines.files."""

from collections.abc import Sequence
from functools import partial

from pipelines.arrays_config import ArraysConfig
from pipelines.files import FileRoute, find_files
from shardmill.features import Features
from transforms.array_layout import array_features, make_array_layout
from transforms.encode_arrays import ArrayEncoder
from transforms.input_summary import InputSummary
from transforms.layout import Layout
from transforms.stats import SplitStats


def arrays_route(config: ArraysConfig) -> FileRoute:
    """How arrays are found, read and described."""
    encoder = ArrayEncoder(config.root, config.feature, renames=config.renames)
    return FileRoute(
        find_files(config, (config.feature, "filename")),
        encoder,
        partial(_describe, feature=config.feature),
        layout=partial(make_array_layout, arrays=config.array_options),
        encoder_of=encoder.of_layout,
    )


def _describe(summary: InputSummary, layout: Layout, _: Sequence[SplitStats], feature: str) -> tuple[Features, Sequence[str]]:
    return array_features(layout, summary.records, feature), ()
