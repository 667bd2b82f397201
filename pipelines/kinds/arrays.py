"""`shardmill arrays`: .npy files of one shape and type, a file an example."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from shardmill.errors import UserError
from shardmill.pipelines.config.listed_files import ListedFilesConfig, tree_flag
from shardmill.pipelines.kinds.kind import Kind
from shardmill.transforms.files.arrays.limits import ELEMENTS, MAX_DIMENSIONS
from shardmill.transforms.inputs.file_kind import ARRAYS, FileKind
from shardmill.transforms.options.declare import ValueMistake, flag

if TYPE_CHECKING:
    from shardmill.features.feature import Features
    from shardmill.pipelines.graphs.files import FileRoute
    from shardmill.pipelines.graphs.jobs import Job
    from shardmill.transforms.files.arrays.layout import ArrayLayout, ArrayOptions
    from shardmill.transforms.inputs.summary import InputSummary
    from shardmill.transforms.statistics.files import SplitStats

RESERVED = ("label", "filename", "split")  # features that every array has, or columns that mean something else


def parse_shape(value: Any) -> tuple[int | None, ...]:
    """Sizes from `64,64`, or numbers; the first may be None, of any size; no size, `''`, is a single value.

    Raises:
      ValueMistake: one of them is none.
    """
    text = value if isinstance(value, str) else ",".join(map(str, value))
    words = [word.strip() for word in text.split(",")] if text.strip() else []
    if "None" in words[1:]:
        raise ValueMistake(
            f"{text!r}: expected no size but the first to be None; TFDS stores a shape beside arrays of others"
        )
    if not all(word.isdecimal() and int(word) > 0 for word in words if word != "None"):
        raise ValueMistake(f"{text!r} is not a list of sizes from 1, such as 64,64 or None,3")
    if len(words) > MAX_DIMENSIONS:
        raise ValueMistake(f"expected {MAX_DIMENSIONS} sizes at most")
    return tuple(None if word == "None" else int(word) for word in words)


def parse_feature(value: Any) -> str:
    """The name of the array's feature.

    Raises:
      ValueMistake: it is no name, or another feature's.
    """
    if not isinstance(value, str) or not value or not value.isprintable():
        raise ValueMistake(f"{value!r}: expected a name")
    if value in RESERVED:
        raise ValueMistake(f"{value}: that is another feature's name; give another")
    return value


@dataclass(frozen=True, kw_only=True)
class ArraysConfig(ListedFilesConfig):
    """What `shardmill arrays` is told."""

    title: ClassVar[str] = "arrays"

    input: str | None = tree_flag("npy")
    feature: str = flag("image", "the name of the array's feature", parse=parse_feature)
    shape: tuple[int | None, ...] | None = flag(
        None,
        "of every array, such as 64,64; None,3 where the first size differs",
        parse=parse_shape,
        default_words="that of the first file by name",
        to_json=list,
    )
    dtype: str | None = flag(
        None,
        "of every array, such as float32",
        choices=ELEMENTS,
        metavar="DTYPE",
        default_words="that of the first file by name",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.shape is None) != (self.dtype is None):
            missing = "--dtype" if self.dtype is None else "--shape"
            raise UserError(
                f"--shape and --dtype go together; {missing} is missing (without both, the first file says them)"
            )

    @property
    def format_name(self) -> str:
        """As the base says."""
        return "arrays"

    @property
    def array_options(self) -> "ArrayOptions":
        """What the layout is decided with, beside folders and labels."""
        from shardmill.transforms.files.arrays.layout import ArrayOptions
        from shardmill.transforms.files.arrays.npy import ArrayType

        given = ArrayType(self.dtype, self.shape) if self.shape is not None and self.dtype is not None else None
        return ArrayOptions(self.root, self.feature, given)

    @property
    def kind(self) -> FileKind:
        """The files that a folder is searched for."""
        return ARRAYS


def arrays_route(config: ArraysConfig) -> "FileRoute":
    """How arrays are found, read and described."""
    from shardmill.pipelines.graphs.files import FileRoute, find_files
    from shardmill.transforms.files.arrays.encode import ArrayEncoder
    from shardmill.transforms.files.arrays.layout import make_array_layout

    encoder = ArrayEncoder(config.root, config.feature, renames=config.renames)
    return FileRoute(
        find_files(config, (config.feature, "filename")),
        encoder,
        partial(_describe, feature=config.feature),
        layout=partial(make_array_layout, arrays=config.array_options),
        encoder_of=encoder.of_layout,
    )


def _describe(
    summary: "InputSummary", layout: "ArrayLayout", _: "Sequence[SplitStats]", feature: str
) -> "tuple[Features, Sequence[str]]":
    from shardmill.transforms.files.arrays.layout import array_features

    return array_features(layout, summary.records, feature), ()


def _job(config: ArraysConfig) -> "Job":
    from shardmill.pipelines.graphs.jobs import file_job

    return file_job(config, arrays_route(config))


KINDS = (
    Kind(
        "arrays",
        "turn .npy arrays into TFRecord shards",
        "Turn a tree of .npy arrays, or a manifest that lists them, into balanced, shuffled TFRecord shards. "
        "All arrays are of one shape and type; those of another are rejected.",
        ArraysConfig,
        _job,
    ),
)
