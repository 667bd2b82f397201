"""Where a data set is written, and when it is not."""

from dataclasses import dataclass
from typing import Any, ClassVar

from shardmill.errors import UserError
from shardmill.metadata import naming
from shardmill.transforms.options.declare import Options, ValueMistake, flag


def parse_path(value: Any) -> str:
    """A path or a URL.

    Raises:
      ValueMistake: it can be none.
    """
    if not isinstance(value, str) or not value:
        raise ValueMistake(f"{value!r} is no path and no URL")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueMistake(f"{value}: the path is not UTF-8; rename the folder, or give a link to it") from None
    return value


@dataclass(frozen=True, kw_only=True)
class OutputOptions(Options):
    """The folder `<output>/<name>/<version>`, and how many rejects keep it from being published."""

    title: ClassVar[str] = "output"

    output: str = flag(help="the folder of all data sets", parse=parse_path, shapes=False)
    name: str = flag(help="of the data set", shapes=False)
    version: str = flag("1.0.0", "of the data set", shapes=False)
    overwrite: bool = flag(False, "replace a published version", shapes=False)
    set_latest: bool = flag(False, "let LATEST name this version although it names a newer one", shapes=False)
    max_reject_fraction: float = flag(
        0.01, "more rejects fail the job", check=lambda part: None if 0 <= part <= 1 else "expected 0 to 1", group="run"
    )

    on_damaged_file: str = flag(
        "fail",
        "what a file does of which nobody knows how many records cannot be read",
        choices=("fail", "reject"),
        group="run",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not naming.is_dataset_name(self.name):
            raise UserError(f"--name {self.name!r}: expected a letter, then letters, digits and '_'")
        if not naming.is_version(self.version):
            raise UserError(f"--version {self.version!r}: expected three numbers, such as 1.0.0")
        if any(part.startswith("0") and part != "0" for part in self.version.split(".")):
            plain = ".".join(str(int(part)) for part in self.version.split("."))
            raise UserError(f"--version {self.version!r}: TFDS reads no leading zeros; give {plain}")

    @property
    def parent(self) -> str:
        """The folder of all versions."""
        from shardmill.transforms.stores import storage

        return storage.join(self.output, self.name)

    @property
    def directory(self) -> str:
        """The version directory."""
        from shardmill.transforms.stores import storage

        return storage.join(self.parent, self.version)
