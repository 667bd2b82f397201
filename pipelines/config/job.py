"""What every job is told. Frozen: what a flag says is said once."""

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from shardmill.errors import UserError
from shardmill.features.renames import Renames
from shardmill.metadata import naming
from shardmill.printable import beginning
from shardmill.transforms.inputs.file_kind import FileKind
from shardmill.transforms.inputs.folders import FolderRoles, parse_roles
from shardmill.transforms.options.checks import CheckOptions
from shardmill.transforms.options.declare import Options, ValueMistake, flag, options_of
from shardmill.transforms.options.labels import LabelOptions
from shardmill.transforms.options.output import OutputOptions, parse_path
from shardmill.transforms.options.shards import DEFAULT_SHARD_SIZE, ShardOptions
from shardmill.transforms.options.splits import TRAINING, SplitOptions
from shardmill.versions.build_record import BuildRecord

if TYPE_CHECKING:
    from shardmill.transforms.sharding.balance import ShardCount

MAX_THREADS = 256  # beyond which threads of one process only wait for each other


def parse_folders(value: Any) -> FolderRoles:
    """What each level of folders is, from `split/label` or `any/label`.

    Raises:
      ValueMistake: a level is something else.
    """
    if isinstance(value, FolderRoles):
        return value
    try:
        return parse_roles(str(value))
    except ValueError as error:
        raise ValueMistake(str(error)) from None


def parse_renames(value: Any) -> tuple[tuple[str, str], ...]:
    """(name, new name) of each `image=image_raw`; or pairs, or a mapping.

    Raises:
      ValueMistake: one of them is not name=new name.
    """
    if isinstance(value, str):
        value = (value,)
    items = value.items() if isinstance(value, dict) else value
    pairs = [tuple(item.partition("=")[::2]) if isinstance(item, str) else tuple(item) for item in items]
    for old, new in pairs:
        if not old or not new:
            raise ValueMistake(
                f"{old + '=' + new if old and new else old or new!r} is not name=new name, such as image=image_raw"
            )
    return tuple((old, new) for old, new in pairs)


def _check_threads(threads: int) -> str | None:
    return None if 0 <= threads <= MAX_THREADS else f"expected 0 (chosen for you) to {MAX_THREADS}"


def input_flag(what: str = "a folder, a file or a glob", **attributes: Any) -> Any:
    """The field of --input, by `what` it may be."""
    words = f"{what}; local, gs://, s3://, az://"
    return flag(None, words, parse=parse_path, group="input", shapes=False, **attributes)


@dataclass(frozen=True, kw_only=True)
class RunOptions(Options):
    """How a job runs, which its output does not show."""

    title: ClassVar[str] = "run"

    threads: int = flag(
        0,
        "that read and encode in each worker",
        check=_check_threads,
        default_words="chosen by the input",
        shapes=False,
    )


@dataclass(frozen=True, kw_only=True)
class NameOptions(Options):
    """What folders mean, and what features are called."""

    folders: FolderRoles | None = flag(
        None,
        "what each level of folders is: label, split/label, any/label, any, …",
        parse=parse_folders,
        group="input",
        default_words="by their names",
        to_json=str,
    )
    rename: tuple[tuple[str, str], ...] = flag(
        (),
        "what a feature is called in examples, such as image=image_raw; other flags keep to NAME; repeat",
        parse=parse_renames,
        repeats=True,
        metavar="NAME=NEW",
        group="output",
        to_json=dict,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.renames  # built to be checked

    @property
    def renames(self) -> Renames:
        """What features are called in examples."""
        return Renames(self.rename)


@dataclass(frozen=True, kw_only=True)
class JobConfig(RunOptions, OutputOptions, LabelOptions, NameOptions, ShardOptions, SplitOptions, ABC):
    """What every job is told: what it reads, where it writes, how it splits, orders and shards.

    Attributes:
      checks: what must hold before the version is published; None where nothing is checked.
      record: what the record of this build begins with; None where none is written.
      job: a nonce: chosen here, once, for all attempts at every step.
    """

    input: str | None = input_flag()
    checks: CheckOptions | None = None
    record: BuildRecord | None = field(default=None, compare=False)
    job: str = field(default_factory=lambda: os.urandom(16).hex(), compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.balance == "tokens" and not self.has_tokens:
            raise UserError("--balance tokens needs --tokenizer, whose tokens shards are to be equal in")
        names = [name for name, _ in self.splits or ()]
        for name, count in self.split_shards:
            if names and name not in names:
                raise UserError(f"--num_shards {name}={count}: no such split; --splits has {', '.join(names)}")
        self._check_shard_names(max((*names, TRAINING), key=len))

    def _check_shard_names(self, split: str) -> None:
        """Check that files can be called as the shards of a split; of splits that folders say, none is known yet."""
        name = str(naming.ShardName(self.name, split, 0, 1, self.codec, self.file_template))
        if not naming.is_file_name(name):
            raise UserError(
                f"--file_template {beginning(self.file_template)}: a shard's name would have {len(name):,} bytes, and"
                f" that of a file has {naming.MAX_NAME_BYTES - len(naming.TEMP_SUFFIX)} at most; give a shorter one, or"
                " a shorter --name"
            )

    @property
    def format_name(self) -> str:
        """Of the input in manifest.json; that of images has none."""
        return ""

    @property
    def has_tokens(self) -> bool:
        """Whether examples have tokens."""
        return False

    @property
    def source(self) -> str:
        """The input as errors call it."""
        return f"--input {self.input}"

    @property
    def inputs(self) -> tuple[str, ...]:
        """The folders, files and globs of --input."""
        return () if self.input is None else (self.input,)

    @cached_property
    def root(self) -> str:
        """The folder that names are relative to; of a URL the store may be asked what it is."""
        from shardmill.transforms.inputs.listing import input_root

        assert self.input is not None
        return input_root(self.input)

    @property
    @abstractmethod
    def kind(self) -> FileKind:
        """The files that a folder is searched for."""

    @property
    def takes_archives(self) -> bool:
        """Whether --input may be a zip archive."""
        return False

    @property
    def reuse_asked(self) -> str | None:
        """What --reuse says; None of a job that has no such option."""
        return None

    @property
    def schema_text(self) -> str:
        """The schema.pbtxt that says what features are; "" where none was given."""
        return ""

    @property
    def libraries(self) -> tuple[str, ...]:
        """Those whose release can change the bytes."""
        return ("xxhash",)

    @property
    def asked(self) -> str:
        """What --schema asks of features beside what they are, by the names that they get; see
        shardmill.metadata.asked_schema."""
        return ""

    @property
    def temporary(self) -> str:
        """The name of the job's temporary directory, in the version directory."""
        return naming.temporary_folder(self.name, self.job)

    @property
    def shard_counts(self) -> "dict[str, ShardCount]":
        """How many shards each split gets; `""` for the splits not named."""
        from shardmill.transforms.sharding.balance import ShardCount

        assert not isinstance(self.num_shards, tuple)
        others = (
            ShardCount(self.num_shards)
            if self.num_shards
            else ShardCount(size_bytes=self.shard_size or DEFAULT_SHARD_SIZE)
        )
        return {"": others, **{name: ShardCount(count) for name, count in self.split_shards}}

    def to_json(self) -> dict[str, Any]:
        """The options that shape the output, for the manifest: what every job is told, the input's format, what it is
        told."""
        shaping = super().to_json()
        common = {option.field for option in options_of(JobConfig)}
        named = {"format": self.format_name} if self.format_name else {}
        return {name: value for name, value in shaping.items() if name in common} | named | shaping
