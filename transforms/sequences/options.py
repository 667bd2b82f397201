"""What a user says of sequences."""

from dataclasses import dataclass
from typing import ClassVar

from shardmill.errors import UserError
from shardmill.transforms.options.declare import Options, flag


@dataclass(frozen=True, slots=True)
class Sequencing:
    """What rows are gathered by.

    Attributes:
      id: the column whose rows of one value are a sequence.
      time: the column that orders them.
    """

    id: str
    time: str


@dataclass(frozen=True, kw_only=True)
class SequenceOptions(Options):
    """Rows as sequences."""

    title: ClassVar[str] = "features"

    sequence_by: str | None = flag(
        None, "the column whose rows of one value become one example: each other column a list", told=False
    )
    order_by: str | None = flag(None, "the column that orders the rows of a sequence, for --sequence_by", told=False)

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

    @property
    def sequencing(self) -> Sequencing | None:
        """What rows are gathered by; None where each is an example."""
        if self.sequence_by is None or self.order_by is None:
            return None
        return Sequencing(self.sequence_by, self.order_by)
