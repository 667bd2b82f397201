"""The option that searches for images that look alike."""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, ClassVar

from shardmill.errors import UserError
from shardmill.installed import install_hint
from shardmill.transforms.features.options import AddOnOptions
from shardmill.transforms.options.declare import flag


@dataclass(frozen=True, kw_only=True)
class NearDuplicatesOptions(AddOnOptions):
    """Flag that finds images that look alike."""

    title: ClassVar[str] = "images"
    observer: ClassVar[str] = "near_duplicates.observer.OBSERVER"

    near_duplicates: bool = flag(False, "Find similar images by a perceptual hash; decodes every image")

    def check(self, config: Any) -> None:
        if find_spec("imagehash") is None:
            raise UserError(f"--near_duplicates needs the library imagehash; {install_hint('near_duplicates')}")
        if config.stream is not None:
            raise UserError(f"{config.stream} and --near_duplicates: the function makes the examples; leave one out")


OPTIONS = NearDuplicatesOptions
