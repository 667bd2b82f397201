"""What kinds of files a folder is searched for."""

import re
from dataclasses import dataclass
from functools import lru_cache

from shardmill.transforms.formats.suffixes import IMAGE_SUFFIXES


@dataclass(frozen=True, slots=True)
class FileKind:
    """What a folder is searched for. A glob takes what it matches, whatever it is called.

    Attributes:
      plural: how errors call the files.
      suffixes: of their names, without the first dot, as alternatives of a regular expression; in either case.
      listed: whether a --manifest may list them.
    """

    plural: str
    suffixes: str
    listed: bool = False

    def accepts(self, name: str) -> bool:
        """Whether the file called `name`, a path or its last part, is of this kind."""
        return _pattern(self.suffixes).search(name) is not None


@lru_cache
def _pattern(suffixes: str) -> re.Pattern[str]:
    return re.compile(rf"[^/]\.(?:{suffixes})\Z", re.IGNORECASE)


IMAGES = FileKind("images", IMAGE_SUFFIXES, listed=True)
ARRAYS = FileKind("arrays", "npy", listed=True)
AUDIO = FileKind("audio files", "wav|wave", listed=True)
