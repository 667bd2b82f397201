"""Class names: frozen by a file, and what a new one does."""

from dataclasses import dataclass
from typing import Any, ClassVar

from shardmill.errors import UserError
from shardmill.metadata.labels import LABELS_FILE, ON_NEW_LABEL, parse_labels
from transforms.options.declare import Options, flag
from transforms.stores import storage


def read_labels(value: Any) -> tuple[str, ...]:
    """The class names in the file at a path; names that are given themselves stay as they are.

    Raises:
      UserError: the file cannot be read, or holds no class names.
    """
    if not isinstance(value, str):
        return tuple(value)
    try:
        return parse_labels(storage.read_bytes(value).decode(), value)
    except OSError as error:
        raise UserError(f"--labels_file {value}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UserError(f"--labels_file {value} is not UTF-8") from None


@dataclass(frozen=True, kw_only=True)
class LabelOptions(Options):
    """Class names.

    Attributes:
      labels: the names in the order of their ids, which they keep; None for those of the input in sorted order.
      kept_of: the version that they are kept of; "" where they are those of --labels_file.
    """

    title: ClassVar[str] = "labels"

    labels: tuple[str, ...] | None = flag(
        None, "class names, one a line: freezes their ids", name="labels_file", parse=read_labels, to_json=list
    )
    on_new_label: str = flag("fail", "what a class not in --labels_file does", choices=ON_NEW_LABEL)

    kept_of: str = ""

    @property
    def source(self) -> str:
        """Where the names come from, in words."""
        return f"the kept labels of version {self.kept_of}" if self.kept_of else LABELS_FILE

    @property
    def given(self) -> str:
        """That they are given, in words, which a reason why they must not be follows."""
        return f"the labels of version {self.kept_of} are kept" if self.kept_of else f"{LABELS_FILE} was given"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.on_new_label != "fail" and self.labels is None:
            raise UserError(f"--on_new_label {self.on_new_label} needs --labels_file")
