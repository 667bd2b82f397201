"""Options that gather rows into sequences."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from shardmill.errors import UserError
from shardmill.flag_values import quote
from shardmill.transforms.features.options import AddOnOptions
from shardmill.transforms.options.declare import newer_name_flag

if TYPE_CHECKING:
    from shardmill.pipelines.config.records import RecordsConfig


@dataclass(frozen=True, kw_only=True)
class SequenceOptions(AddOnOptions):
    """Flags that gather rows into sequences."""

    title: ClassVar[str] = "features"
    precedes: ClassVar[str] = "delimiter"
    rows: ClassVar[str] = "sequences.rows.Sequences"
    derived: ClassVar[Mapping[str, str]] = {"sequence_by": "sequences (sequence_by)"}

    sequence_by: str | None = newer_name_flag(
        None,
        "Column that groups rows: all rows with the same value become one example, with a list for each other column",
    )
    order_by: str | None = newer_name_flag(None, "Column by which the rows of a sequence are sorted, for --sequence_by")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sequence_by is not None and self.order_by is None:
            raise UserError(
                f"--sequence_by {self.sequence_by} needs --order_by, the column that says in which order the rows of a"
                " sequence are, such as a time or a number"
            )
        if self.order_by is not None and self.sequence_by is None:
            raise UserError(f"--order_by {self.order_by} needs --sequence_by, the column that says which rows are one")
        if self.order_by is not None and self.order_by == self.sequence_by:
            raise UserError(f"--sequence_by and --order_by are both {self.order_by}: its rows have no order")

    def check(self, config: "RecordsConfig") -> None:
        others = {"--key": config.key, "--label_separator": config.label_separator}
        for options in config.add_ons:
            others |= {} if options is self else {f"--{name}": getattr(options, name) for name in options.derived}
        given = [flag for flag, value in others.items() if value is not None]
        given += [] if config.analysis is None else [config.analysis.flag]
        if given:
            raise UserError(f"--sequence_by and {given[0]}: rows are gathered as they are; leave one of them out")
        if config.no_shuffle:
            raise UserError("--sequence_by and --no_shuffle: sequences are in the order of their ids' hashes")
        if config.group_by is not None:
            raise UserError(
                f"--group_by {config.group_by}: with --sequence_by the id decides the split of a row, so that all rows"
                " of a sequence are in one; leave it out"
            )
        labels = (*(config.label or ()), *(["label"] if config.label or config.schema else []))
        if config.stratify_by is not None and config.stratify_by not in labels:
            raise UserError(
                f"--stratify_by {config.stratify_by}: the rows of a sequence have one value of a label alone; give"
                f" --label {quote(config.stratify_by)}, too"
            )
        for name in (self.sequence_by, self.order_by):
            if name in config.drop:
                raise UserError(f"--drop {quote(name)}: sequences are made by that column; do not drop it")


OPTIONS = SequenceOptions
