"""The journal of a publication: which temporary file becomes which, so that whoever finds it can bring the publication
to its end.

It lies in the version directory, as `_PUBLISHING`, from before the first file of the older version is touched until
LATEST names the new one. All that it names lies in that directory. Pure.
"""

import json
import re
from dataclasses import asdict, dataclass

from shardmill.errors import CorruptDataError
from shardmill.metadata import file_template, naming

FORMAT = 1  # raised when what was written before would be misread
_CRC32C = re.compile("[0-9a-f]{8}")


@dataclass(frozen=True, slots=True)
class Move:
    """A file of the new version: where it lies until it is published, its name then, its bytes, and their crc32c (8 hex
    digits)."""

    temporary: str
    file: str
    size_bytes: int
    crc32c: str


@dataclass(frozen=True, slots=True)
class Journal:
    """The whole of it.

    Attributes:
      job: the nonce of the job whose publication it is.
      name, version: of the data set.
      temporary: the job's directory, in the version directory.
      latest: what LATEST named when the publication began; empty if there was none.
      set_latest: whether LATEST shall name this version although it names a newer one.
      moves: of all files but `_SUCCESS`, in the order in which they are renamed; the manifest last.
      templates: by which shards are called, the new ones or the older, beside the default.
    """

    job: str
    name: str
    version: str
    temporary: str
    latest: str
    moves: tuple[Move, ...]
    set_latest: bool = False
    templates: tuple[str, ...] = ()

    def to_json(self) -> str:
        """The text of the file; without templates where there are none, as it was before there could be any."""
        content = {name: value for name, value in asdict(self).items() if value or name != "templates"}
        return json.dumps({"format": FORMAT, **content}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: bytes, path: str) -> "Journal":
        """Parse the text of the journal at `path`.

        Raises:
          CorruptDataError: it is none, or names files that are not a data set's.
        """
        try:
            content = json.loads(text)
            if content.pop("format") != FORMAT:
                raise CorruptDataError(f"{path} was written by a newer shardmill; complete that publication with it")
            moves = tuple(Move(**move) for move in content.pop("moves"))
            templates = tuple(content.pop("templates", ()))
            journal = cls(**content, moves=moves, templates=templates)
            journal._check()
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            if isinstance(error, CorruptDataError):
                raise
            raise CorruptDataError(f"{path} is not the journal of a publication: {error}") from None
        return journal

    def _check(self) -> None:
        if self.temporary != naming.temporary_folder(self.name, self.job) or "/" in self.temporary:
            raise ValueError(f"{self.temporary!r} is not the temporary directory of job {self.job!r}")
        if not naming.is_dataset_name(self.name):
            raise ValueError(f"{self.name!r} is not the name of a data set")
        if not naming.is_version(self.version) or not isinstance(self.latest, str):
            raise ValueError(f"{self.version!r} is not a version, or {self.latest!r} not a text")
        if not isinstance(self.set_latest, bool):
            raise TypeError(f"set_latest is {self.set_latest!r}, neither true nor false")
        if not self.moves or self.moves[-1].file != naming.MANIFEST:
            raise ValueError("its last file is not the manifest")
        if len({move.file for move in self.moves}) + len({move.temporary for move in self.moves}) != 2 * len(
            self.moves
        ):
            raise ValueError("it names a file twice")
        for template in self.templates:
            if file_template.problem(template):
                raise ValueError(f"{template!r} {file_template.problem(template)}")
        for move in self.moves:
            self._check_move(move)

    def _check_move(self, move: Move) -> None:
        inside = naming.is_inside(move.file) and naming.is_inside(move.temporary)
        if not (inside and self._publishes(move.file) and move.temporary.startswith(f"{self.temporary}/")):
            raise ValueError(f"it renames {move.temporary!r} to {move.file!r}")
        if type(move.size_bytes) is not int or move.size_bytes < 0:
            raise TypeError(f"{move.file!r} has {move.size_bytes!r} bytes")
        if not (isinstance(move.crc32c, str) and _CRC32C.fullmatch(move.crc32c)):
            raise TypeError(f"{move.file!r} has the crc32c {move.crc32c!r}")

    def _publishes(self, file: str) -> bool:
        """Whether `file` may be among those renamed; `_SUCCESS` and the journal itself are written in their own
        steps."""
        temporary = file.startswith(naming.TEMP_PREFIX) or file.endswith(naming.TEMP_SUFFIX)
        return (
            naming.is_dataset_file(file, self.name, self.templates)
            and not temporary
            and file not in (naming.SUCCESS, naming.PUBLISHING, naming.LOCK)
        )
