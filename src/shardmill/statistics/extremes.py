"""The images that are the smallest, largest or most elongated, and where their records lie, as stats.json has it."""

from dataclasses import asdict, dataclass

from shardmill.metadata.json_values import Value
from shardmill.statistics.members import Json


@dataclass(frozen=True, slots=True)
class Extreme:
    """An image that is the smallest, the largest or the most elongated, or nearly so.

    Attributes:
      file: its name.
      width, height: in pixels.
      shard: the name of the file that its record is in.
      offset, length: in bytes, of the record with its frame, in the shard before that is compressed.
    """

    file: str
    width: int
    height: int
    shard: str = ""
    offset: int = 0
    length: int = 0

    def to_json(self) -> Json:
        """As the file has it."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Value) -> "Extreme":
        """What the file has; raises ValueError."""
        numbers = (value[key].integer() for key in ("width", "height", "offset", "length"))
        width, height, offset, length = numbers
        return cls(value["file"].text(), width, height, value["shard"].text(), offset, length)
