"""What a user says of records inside files, and which of it contradicts what else is said."""

from abc import ABC
from dataclasses import dataclass
from typing import ClassVar

from shardmill.errors import UserError
from shardmill.features.feature import Features
from shardmill.pipelines.config.columns import ColumnOptions
from shardmill.pipelines.config.delimited import DelimitedOptions
from shardmill.pipelines.config.job import JobConfig, input_flag
from shardmill.transforms.options.boxes import BoxOptions
from shardmill.transforms.options.declare import flag
from shardmill.transforms.options.pictures import PictureOptions
from shardmill.transforms.options.shards import parse_size
from shardmill.transforms.preprocessing.options import TransformOptions
from shardmill.transforms.sequences.options import SequenceOptions
from shardmill.transforms.tokens.options import TokenOptions

DEFAULT_BLOCK_SIZE = 16 << 20  # bytes: large enough for vectorised work, small enough for a few in memory at once
_MIN_BLOCK_SIZE, _MAX_BLOCK_SIZE = 1 << 10, 1 << 30  # bytes


def _check_block_size(size: int) -> str | None:
    return None if _MIN_BLOCK_SIZE <= size < _MAX_BLOCK_SIZE else "expected 1KiB to 1GiB"


@dataclass(frozen=True, kw_only=True)
class RecordOptions(
    ColumnOptions,
    DelimitedOptions,
    TransformOptions,
    TokenOptions,
    SequenceOptions,
    PictureOptions,
    BoxOptions,
    JobConfig,
    ABC,
):
    """The options of all formats; of what a format has no flag for, it is told the default."""

    title: ClassVar[str] = "features"

    input: str | None = input_flag(required=True)
    line_numbers: bool = flag(False, "features filename and line_number, too", group="input")
    on_mixed: str = flag(
        "fail",
        "what a record does whose feature is of another kind than in most records, or in --schema",
        choices=("fail", "reject"),
    )
    block_size: int = flag(
        DEFAULT_BLOCK_SIZE,
        "read at once",
        parse=parse_size,
        check=_check_block_size,
        group="run",
        default_words="16MiB",
        shapes=False,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.materialize and self.schema is not None and self.schema.asked:
            raise UserError(
                f"--materialize: {self.schema.said} asks for more of raw values than their types, and transformed"
                " examples have none of them; leave the constraints out of the schema, or --materialize"
            )
        self._check_times()
        self._check_tokens()
        self._check_sequences()

    def _check_times(self) -> None:
        if self.schema is None or not self.timestamp or not self.schema.asked:
            return
        from shardmill.metadata.asked_schema import other_units

        units = {self.renames.original(name): unit for name, unit in other_units(self.schema.asked).items()}
        for name, unit in self.timestamp:
            if other := units.get(name):
                raise UserError(
                    f"--timestamp {name}={unit}: {self.schema.said} says that its times are in {other}, which is not"
                    " written; leave the time_domain out of the schema, or --timestamp"
                )

    def _check_tokens(self) -> None:
        if self.tokenizer is None:
            return
        _ = self.own_schema  # undone to be checked
        for other in ("transform", "module_file", "transform_graph"):
            if getattr(self, other) is not None:
                raise UserError(
                    f"--tokenizer and --{other}: texts become tokens or what it says; leave one of them out"
                )
        if self.pack_to is None:
            return
        for other in ("label", "label_separator", "stratify_by", "line_numbers"):
            if getattr(self, other):
                raise UserError(
                    f"--pack_to and --{other}: a block has parts of several texts, and nothing that is said of one;"
                    " leave one of them out"
                )
        if self.balance == "bytes":
            raise UserError(
                f"--balance bytes: with --pack_to all examples have {self.pack_to:,} tokens, and shards are equal in"
                " these; leave it out"
            )

    def _check_sequences(self) -> None:
        if self.sequence_by is None:
            return
        for other in ("tokenizer", "transform", "module_file", "transform_graph", "key", "label_separator"):
            if getattr(self, other) is not None:
                raise UserError(f"--sequence_by and --{other}: rows are gathered as they are; leave one of them out")
        if self.no_shuffle:
            raise UserError("--sequence_by and --no_shuffle: sequences are in the order of their ids' hashes")
        for other in ("group_by", "stratify_by"):
            if getattr(self, other) is not None:
                raise UserError(
                    f"--{other} {getattr(self, other)}: with --sequence_by the id decides the split of a row, so that"
                    " all rows of a sequence are in one; leave it out"
                )
        for name in (self.sequence_by, self.order_by):
            if name in self.drop:
                raise UserError(f"--drop {name}: sequences are made by it; leave it in")

    @property
    def has_tokens(self) -> bool:
        """As the base says."""
        return self.tokenizer is not None

    @property
    def own_schema(self) -> Features | None:
        """The features of --schema as the input has them, and by its names: texts, not tokens; rows, not sequences."""
        if self.schema is None:
            return None
        features = self.renames.undone(self.schema.features)
        if self.tokenization is not None:
            from shardmill.transforms.layout.tokens import untokenized

            features = untokenized(features, self.tokenization, self.schema.said)
        if self.sequencing is not None:
            from shardmill.transforms.layout.sequences import ungathered

            features = ungathered(features)
        return features
