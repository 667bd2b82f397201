"""What a job over records inside files is told: tables, lines of text, existing TFRecords."""

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from shardmill.errors import UserError
from shardmill.features.feature import Features, of_kind
from shardmill.pipelines.config.format_spec import FormatSpec
from shardmill.pipelines.config.record_options import RecordOptions
from shardmill.transforms.inputs.file_kind import FileKind
from shardmill.transforms.options.boxes import BoxOptions
from shardmill.transforms.options.labels import LabelOptions
from shardmill.transforms.options.pictures import PictureOptions
from shardmill.transforms.options.splits import SplitOptions

if TYPE_CHECKING:
    from shardmill.transforms.formats.base import RecordFormat
    from shardmill.transforms.inputs.record_files import RecordFiles
    from shardmill.transforms.layout.table_options import TableOptions
    from shardmill.transforms.records.analyze import ModuleAnalysis
    from shardmill.transforms.records.encode import RecordEncoder
    from shardmill.transforms.records.keyed import KeyOptions
    from shardmill.transforms.records.run_size import RunSize


@dataclass(frozen=True, kw_only=True)
class RecordsConfig(RecordOptions):
    """What is read, encoded and laid out, as the options and the format together say it."""

    spec: FormatSpec

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.inputs:
            raise UserError("give --input, a folder, a file or a glob")
        if self.spec.untouched:
            self._check_untouched()
        self._check_separators()
        try:
            _ = self.format  # built to be checked
        except ValueError as error:
            raise UserError(str(error)) from None

    def _check_untouched(self) -> None:
        if self.on_new_label != "fail":
            raise UserError(
                f"--on_new_label {self.on_new_label}: reshard passes records through with the ids that they have; "
                "add the names of new ids to --labels_file"
            )
        if self.rename:
            raise UserError(
                "--rename: reshard passes records through untouched, and names stand in each of them; rename where the"
                " reader parses them, or convert what these records were made of"
            )

    def _check_separators(self) -> None:
        for name, separator in (self.label_separator or {}).items():
            if not self.table_labels:
                raise UserError(f"--label_separator {separator!r} splits a label; name its column with --label")
            if not name and len(self.table_labels) > 1:
                each = f"{self.table_labels[-1]}={separator}"
                raise UserError(
                    f"--label_separator {separator!r}: which of {', '.join(self.table_labels)}? Give --label_separator"
                    f" {each!r} if it is that one"
                )
            if name and name not in self.table_labels:
                raise UserError(f"--label_separator {name}={separator}: --label names no {name}")

    @property
    def format_name(self) -> str:
        """As the base says."""
        return self.spec.name

    @property
    def libraries(self) -> tuple[str, ...]:
        """Those whose release can change the bytes."""
        analyzing = ("tensorflow", "tensorflow-transform") if self.module_file is not None else ()
        tokenizing = ("tokenizers",) if self.tokenizer is not None else ()
        return ("pyarrow", "xxhash", *analyzing, *tokenizing)

    @property
    def files(self) -> "RecordFiles":
        """The files that hold the records."""
        from shardmill.transforms.inputs.record_files import OneInput

        assert self.input is not None
        return OneInput(self.input)

    @property
    def format(self) -> "RecordFormat":
        """How the records are read."""
        return self.spec.make_format(self)

    @property
    def encoder(self) -> "RecordEncoder":
        """What becomes of the rows."""
        if self.sequencing is not None:
            from shardmill.transforms.records.sequence_rows import SequenceRowEncoder

            return SequenceRowEncoder(tuple(self.table_options.helpers), self.renames, sequencing=self.sequencing)
        return self.spec.make_encoder(tuple(self.table_options.helpers), self.renames, self.tokenization)

    @property
    def kind(self) -> FileKind:
        """As the base says."""
        return self.spec.kind

    @property
    def schema_text(self) -> str:
        """As the base says."""
        if self.schema is None:
            return ""
        from shardmill.metadata.schema import to_pbtxt

        return to_pbtxt(self.schema.features, self.schema.asked)

    @property
    def own_schema(self) -> "Features | None":
        """As the base says; with a column in the place of the features of objects."""
        return self._unplaced[0]

    @property
    def _unplaced(self) -> "tuple[Features | None, Features]":
        """The features of --schema as the input has them, and those of objects in images, where a column is of such."""
        features = super().own_schema
        if features is None or not self.spec.has_objects:
            return features, ()
        from shardmill.transforms.layout.table_options import unplaced

        return unplaced(features)

    @property
    def _schema_labels(self) -> tuple[str, ...]:
        """The class label of --schema: what the command that wrote it was given as --label."""
        labels = tuple(feature.name for feature in of_kind(self.own_schema or (), "class_label"))
        return labels if len(labels) == 1 and not self.spec.untouched else ()

    @property
    def asked(self) -> str:
        """As the base says."""
        if self.schema is None or not self.schema.asked:
            return ""
        from shardmill.metadata.asked_schema import asked_of

        return asked_of(self.schema.asked, lambda name: self.renames(self.renames.original(name)))

    @property
    def table_labels(self) -> tuple[str, ...]:
        """The columns that are labels."""
        return self.label or self._schema_labels

    @property
    def _split(self) -> SplitOptions:
        """How records are dealt out to splits; the column that is named `label` is the first of --label."""
        split, label = self.part(SplitOptions), next(iter(self.table_labels), "label")
        return replace(
            split,
            group_by=label if split.group_by == "label" else split.group_by,
            stratify_by=label if split.stratify_by == "label" else split.stratify_by,
        )

    @property
    def table_options(self) -> "TableOptions":
        """What the layout is decided with."""
        from shardmill.transforms.layout.table_options import TableOptions

        named = {"--group_by": self.group_by, "--stratify_by": self.stratify_by}
        return TableOptions(
            source=self.source,
            schema=self.own_schema,
            objects=self._unplaced[1],
            records=(self.input or "") if self.spec.untouched else "",
            schema_said=self.schema.said if self.schema is not None else "",
            drop=self.drop,
            only=self.only,
            fill=self.fill,
            label_columns=self.table_labels,
            images=self.image,
            pictures=self.part(PictureOptions),
            boxes=self.part(BoxOptions),
            times=dict(self.timestamp),
            order_by=self.order_by or "",
            calls_rows=self.spec.calls_rows,
            separators={name or self.table_labels[0]: text for name, text in (self.label_separator or {}).items()},
            says_label=tuple(name for name, column in named.items() if column == "label"),
            key=self.key or self.sequence_by,
            key_said="--key" if self.sequence_by is None else "--sequence_by",
            split=self._split,
            classes=self.part(LabelOptions),
            folders=self.folders,
            plural=self.kind.plural,
            split_shards=tuple(name for name, _ in self.split_shards),
        )

    @property
    def key_options(self) -> "KeyOptions":
        """What keys and splits are computed with."""
        from shardmill.transforms.records.keyed import KeyOptions

        return KeyOptions(self._split, self.key or self.sequence_by, self.apart)

    def module_analysis(self, features: Features) -> "ModuleAnalysis":
        """What --module_file is given of examples with `features`, by the names of the input."""
        from shardmill.metadata.schema import to_pbtxt
        from shardmill.transforms.records.analyze import ModuleAnalysis

        return ModuleAnalysis(self.module_file, to_pbtxt(self.renames.features(features)), self.analyzed_splits)

    @property
    def read_threads(self) -> int:
        """How many threads of a worker read and encode, as ThreadedFlatMap takes them."""
        from shardmill.transforms.stores.storage import is_local
        from shardmill.transforms.workers.threads import TWICE_THE_CORES

        waits = not all(map(is_local, (self.directory, *self.inputs)))
        return self.threads or (TWICE_THE_CORES if waits else 0)

    @property
    def run_size(self) -> "RunSize":
        """The bytes of input that become one run."""
        from shardmill.transforms.records.run_size import RunSize
        from shardmill.transforms.sharding.shards import about_how_many
        from shardmill.transforms.stores.storage import is_local

        shards = partial(about_how_many, self.shard_counts)
        return RunSize(self.block_size, shards, not is_local(self.directory))

    @property
    def apart(self) -> tuple[str, ...]:
        """The features that say which record it is, and not what it holds."""
        key = tuple(filter(None, (self.key, self.sequence_by, self.spec.calls_rows)))
        return (*key, "filename", "line_number") if self.line_numbers else key

    @property
    def content(self) -> str:
        """What of two records is compared where equal ones are looked for, in words."""
        if self.pack_to is not None:
            return "documents"
        without = f" without {', '.join(map(repr, self.apart))}" if self.apart else ""
        return f"{'records' if self.sequence_by is None else 'sequences'}{without}"

    def to_json(self) -> dict[str, Any]:
        """As the base says; the features of --schema by the names of the input."""
        names = None if self.own_schema is None else [feature.name for feature in self.own_schema]
        return super().to_json() | {"schema": names}
