"""What the objects in images are called in examples: as by TFDS's data sets, or by TensorFlow's Object Detection API.

That API reads keys of its own (object_detection/data_decoders/tf_example_decoder.py): edges and classes are lists each,
the name of a class stands beside its id, and ids begin at 1, for its label maps keep 0 for `background`
(object_detection/utils/label_map_util.py).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from shardmill.errors import UserError
from shardmill.features.object_detection import BACKGROUND, KEYS
from shardmill.transforms.inputs.annotations.objects import Member

Part = Member | Literal["top", "left", "bottom", "right", "text"]


class Stored(NamedTuple):
    """A feature of objects: its name, what it holds of them, and which member that is of."""

    name: str
    part: Part
    member: Member


@dataclass(frozen=True)
class ObjectNames:
    """The names.

    Attributes:
      sequence: of the list of objects, with which every other begins.
      all: of what can be said of objects, in the order in which it is written.
      of_api: whether they are the API's: 0 is then the id of no class of objects, and of every image a text is stored
        that it is known by, its format, and the SHA-256 of its bytes.
    """

    sequence: str
    all: tuple[Stored, ...]
    of_api: bool = False

    @property
    def image_id(self) -> str:
        """The text by which every image is known, its id or the name of its file; "" where only ids are stored, of
        images that have one."""
        return KEYS.source_id if self.of_api else ""

    def stored(self, members: Iterable[Member]) -> tuple[Stored, ...]:
        """What is stored where `members` are said of each object."""
        said = set(members)
        return tuple(item for item in self.all if item.member in said)

    def classes(self, names: Sequence[str]) -> tuple[str, ...]:
        """The names of classes by the ids that are stored."""
        return (BACKGROUND, *names) if self.of_api and tuple(names[:1]) != (BACKGROUND,) else tuple(names)

    def check(self, found: Iterable[str], names: Sequence[str]) -> None:
        """Raise a UserError if a class of objects that are `found`, or a later one of the classes' `names`, is called
        as that of no object."""
        if self.of_api and (BACKGROUND in found or BACKGROUND in names[1:]):
            raise UserError(
                f"--feature_names object_detection: a class is called {BACKGROUND!r}, which the Object Detection API"
                " keeps for what is in no box, by the id 0; rename the class"
            )


def _plain(member: Member) -> Stored:
    return Stored(f"objects/{member}", member, member)


_MEMBERS: tuple[Member, ...] = ("area", "bbox", "id", "is_crowd", "is_difficult", "is_truncated", "label", "pose")
TFDS = ObjectNames("objects", tuple(map(_plain, _MEMBERS)))
OBJECT_DETECTION = ObjectNames(
    KEYS.objects,
    (
        Stored(KEYS.area, "area", "area"),
        Stored(KEYS.edges[3], "right", "bbox"),
        Stored(KEYS.edges[1], "left", "bbox"),
        Stored(KEYS.edges[2], "bottom", "bbox"),
        Stored(KEYS.edges[0], "top", "bbox"),
        Stored(KEYS.label, "label", "label"),
        Stored(KEYS.text, "text", "label"),
        Stored(KEYS.difficult, "is_difficult", "is_difficult"),
        Stored(KEYS.id, "id", "id"),
        Stored(KEYS.is_crowd, "is_crowd", "is_crowd"),
        Stored(KEYS.truncated, "is_truncated", "is_truncated"),
        Stored(KEYS.view, "pose", "pose"),
    ),
    of_api=True,
)
