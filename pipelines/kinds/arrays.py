"""`shardmill arrays` as a route of pipelines.graphs.files."""

from collections.abc import Sequence
from functools import partial

from pipelines.graphs.files import FileRoute, find_files
from pipelines.kinds.arrays_config import ArraysConfig
from shardmill.features import Features
from transforms.files.arrays.encode import ArrayEncoder
from transforms.files.arrays.layout import ArrayLayout, array_features, make_array_layout
from transforms.inputs.summary import InputSummary
from transforms.statistics.files import SplitStats


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


def _describe(summary: InputSummary, layout: ArrayLayout, _: Sequence[SplitStats], feature: str) -> tuple[Features, Sequence[str]]:
    return array_features(layout, summary.records, feature), ()
