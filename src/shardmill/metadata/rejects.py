"""Records that are left out: the lines of rejects/ in the data set."""

from dataclasses import dataclass
from typing import Any, Literal

Count = Literal["exact", "estimated", "at least"]


@dataclass(frozen=True, slots=True)
class Reject:
    """A record left out, or all those of a file that cannot be read any further.

    Attributes:
      source: the file it came from.
      line: its line there, or in the manifest that names it.
      stage: what refused it.
      reason: why.
      records: how many records it stands for; None where that is estimated once all files are read, see
        shardmill.transforms.rejects.losses.
      size_bytes: of the file on disk that could not be read; 0 for a record that was read and refused.
      count: how sure `records` is: as a footer or an index says, estimated by bytes, or at least so many.
      manifest: whose line it is, where there are several manifests.
    """

    source: str
    line: int | None
    stage: str
    reason: str
    records: int | None = 1
    size_bytes: int = 0
    count: Count = "exact"
    manifest: str = ""

    @property
    def counted(self) -> int:
        """What it adds to the number of records of the input."""
        return 1 if self.records is None else self.records

    @property
    def is_loss(self) -> bool:
        """Whether something was not even read."""
        return self.records != 1 or self.size_bytes > 0 or self.count != "exact"

    def to_json(self) -> dict[str, Any]:
        """Its line in rejects/: how much it stands for only where that is not one record, its manifest only where there
        are several."""
        lost = {"records": self.records, "size_bytes": self.size_bytes, "count": self.count} if self.is_loss else {}
        of = {"manifest": self.manifest} if self.manifest else {}
        return {"source": self.source, **of, "line": self.line, "stage": self.stage, "reason": self.reason, **lost}
