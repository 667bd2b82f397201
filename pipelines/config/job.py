"""The configuration that every job has."""

import os
import sys
from abc import ABC
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self

from shardmill.addons import registry
from shardmill.data.features import Renames
from shardmill.errors import UserError
from shardmill.flag_values import OptionValueError, split_pairs
from shardmill.metadata import file_names
from shardmill.metadata.versions import BuildRecord
from shardmill.text import mask_urls, shorten
from shardmill.transforms.features.options import AddOnOptions, insert_options, load
from shardmill.transforms.inputs.folders import FileKind, FolderRoles, parse_roles
from shardmill.transforms.options import job_options
from shardmill.transforms.options.declare import Option, Options, flag, newer_flag, options_of
from shardmill.transforms.options.image_options import LabelOptions

if TYPE_CHECKING:
    from shardmill.transforms.analysis import Analysis
    from shardmill.transforms.findings import Findings
    from shardmill.transforms.inputs.record_blocks import IndexedBlocks
    from shardmill.transforms.shards.balance import ShardCount

MAX_THREADS = 256  # beyond which threads of one process only wait for each other


def parse_folders(value: Any) -> FolderRoles:
    """Parse the meaning of each folder level, from `split/label` or `any/label`; raises OptionValueError."""
    if isinstance(value, FolderRoles):
        return value
    try:
        return parse_roles(str(value))
    except ValueError as error:
        raise OptionValueError(str(error)) from None


def parse_patterns(value: Any) -> tuple[str, ...]:
    """Parse the patterns of --exclude, one or several; raises OptionValueError for one that matches no name."""
    patterns = tuple([value] if isinstance(value, str) else value)
    for pattern in patterns:
        if not isinstance(pattern, str) or not pattern.strip("/"):
            raise OptionValueError(f"{pattern!r}: expected the name of a file or folder, or a pattern such as '*.xml'")
    return patterns


def parse_renames(value: Any) -> tuple[tuple[str, str], ...]:
    """Parse (name, new name) pairs from texts `image=image_raw`, pairs or a mapping; raises OptionValueError."""
    expected = "name=new name, such as image=image_raw"
    for old, new in (pairs := split_pairs(value, expected, is_listed=True)):
        if not new:
            raise OptionValueError(f"{old} is not {expected}")
    return tuple(pairs)


def input_flag(description: str = "Folder, file or glob to read", **attributes: Any) -> Any:
    """Declare the flag --input; `description` describes the paths that it accepts."""
    words = f"{description}; local, gs://, s3://, az://"
    return flag(None, words, parse=job_options.parse_path, group="input", affects_output=False, **attributes)


@dataclass(frozen=True, kw_only=True)
class NameOptions(Options):
    """Options for the meaning of folders and the names of features."""

    folders: FolderRoles | None = flag(
        None,
        "Meaning of each folder level, for example label or split/label; label/group keeps the files of a "
        "group in one split",
        parse=parse_folders,
        group="input",
        default_words="inferred from the folder names",
        to_json=str,
    )
    exclude: tuple[str, ...] = newer_flag(
        (),
        "Pattern of files and folders of the input to leave out, for example thumbs or '*.xml'; repeatable",
        parse=parse_patterns,
        repeats=True,
        other_name="ignore",
        metavar="PATTERN",
        group="input",
    )
    rename: tuple[tuple[str, str], ...] = flag(
        (),
        "New name of a feature in the examples, for example image=image_raw; other flags still use NAME; repeatable",
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
        """Return the names of features in examples."""
        return Renames(self.rename)


def _parse_workers(value: Any) -> int:
    if value == "auto":
        return 0
    try:
        return int(value)
    except (TypeError, ValueError):
        raise OptionValueError(f"{value!r} is not auto or a number") from None


class Changed(NamedTuple):
    """A stream of records, as an add-on has changed it, if one does."""

    indexed: "IndexedBlocks"
    config: Any  # the RecordsConfig of its records
    findings: "Iterable[Findings]" = ()  # side input of what the add-on found in the records before
    inferred: "Iterable[Any]" = ()  # side input of none or one: the Inferred types, where anything is inferred


class StreamAddOn(Protocol):
    """Hooks of an add-on that changes a job's records before they are keyed; its text names it in messages.

    It is made `of` options. `config` is the job's RecordsConfig or FilesConfig, as it was given. Temporary files are
    written to `temporary`.
    """

    offloaded: ClassVar[str]  # module whose functions worker processes call

    def check(self) -> None:
        """Check what workers will call; raises UserError."""

    def change_records(self, indexed: "IndexedBlocks", config: Any, temporary: str) -> Changed:
        """Return the records that are made of those in indexed files."""

    def config_of_files(self, config: Any) -> Any:
        """Return the RecordsConfig of the records that are made of whole files."""

    def change_files(self, indexed: Any, layout: Any, encoder: Any, config: Any, temporary: str) -> Changed:
        """Return the records that are made of IndexedFiles, which have a Layout and are read by a FileEncoder."""


@dataclass(frozen=True, kw_only=True)
class JobConfig(
    job_options.OutputOptions, LabelOptions, NameOptions, job_options.ShardOptions, job_options.SplitOptions, ABC
):
    """The configuration of every job: what it reads, where it writes, how it splits, orders and shards."""

    takes_archives: ClassVar[bool] = False  # True if --input may be a zip archive
    file_kind: ClassVar[FileKind]  # files to search a folder for
    given_texts: tuple[str, ...] = field(default=(), compare=False, repr=False)  # parts of flags' values, some paths

    threads: int = flag(
        0,
        "Number of threads that read and encode in each worker",
        check=lambda threads: None if 0 <= threads <= MAX_THREADS else f"expected 0 (chosen for you) to {MAX_THREADS}",
        group="run",
        default_words="chosen for the kind of input",
        affects_output=False,
    )
    workers: int = flag(
        0,
        "Number of processes that read, encode and write, or auto; for the local runner",
        parse=_parse_workers,
        check=lambda workers: None if 0 <= workers <= MAX_THREADS else f"expected auto, or 1 to {MAX_THREADS}",
        group="run",
        metavar="auto|N",
        default_words="auto: one for each core, if there is enough work",
        affects_output=False,
    )
    input: str | None = input_flag()
    add_ons: tuple[AddOnOptions, ...] = ()  # given options of add-ons
    checks: job_options.CheckOptions | None = None  # run before the version is published; None for none
    # the start of this build's record; None for no record
    record: BuildRecord | None = field(default=None, compare=False)
    # a nonce, chosen once for all attempts at every step
    job: str = field(default_factory=lambda: os.urandom(16).hex(), compare=False)

    def __post_init__(self) -> None:
        if sys.getfilesystemencoding() != "utf-8":
            raise UserError(
                f"this process reads file names as {sys.getfilesystemencoding()}, by its locale, and they are UTF-8;"
                " set PYTHONUTF8=1"
            )
        super().__post_init__()
        if self.folders is not None and self.folders.group is not None:
            if self.splits is None:
                raise UserError(f"--folders {self.folders} needs --splits: a group is what stays in one of them")
            if self.group_by is not None:
                raise UserError(f"--folders {self.folders} contradicts --group_by {self.group_by}; give one of them")
        if self.balance in registry.QUANTITIES and all(options.quantity != self.balance for options in self.add_ons):
            flag = registry.QUANTITIES[self.balance].flag
            raise UserError(f"--balance {self.balance} needs --{flag}, whose {self.balance} shards are to be equal in")
        names = [name for name, _ in self.splits or ()]
        for name, count in self.split_shards:
            if names and name not in names:
                raise UserError(f"--num_shards {name}={count}: no such split; --splits has {', '.join(names)}")
        longest = max((*names, job_options.TRAINING), key=len)  # splits named by folders are not known yet
        name = str(file_names.ShardName(self.name, longest, 0, 1, self.codec, self.file_template))
        if not file_names.is_file_name(name):
            raise UserError(
                f"--file_template {shorten(self.file_template)}: a shard's name would have {len(name):,} bytes, and"
                f" that of a file has {file_names.MAX_NAME_BYTES - len(file_names.TEMP_SUFFIX)} at most; give a"
                " shorter one, or a shorter --name"
            )

    def resolve(self) -> Self:
        """Return this configuration with what the files of its input say about it. It is called once."""
        return self

    def check(self) -> None:
        """Check that options do not contradict each other or the input; called once, after `resolve`."""
        for options in self.add_ons:
            options.check(self)

    @property
    def format_name(self) -> str:
        """Return the input format's name in manifest.json; "" for images."""
        return ""

    @property
    def source(self) -> str:
        """Return the flags that give the input, for errors."""
        return f"--input {self.input}"

    @property
    def pattern(self) -> str:
        """Return the input as manifest.json names it."""
        return str(mask_urls(self.source.split(" ", 1)[1]))

    @property
    def inputs(self) -> tuple[str, ...]:
        """Return the folders, files and globs of --input."""
        return () if self.input is None else (self.input,)

    @property
    def secret_flags(self) -> tuple[str, ...]:
        """Return the flags whose values hold a secret, which is written nowhere."""
        return ()

    @property
    def local_files(self) -> tuple[tuple[str, str], ...]:
        """Return (flag, path) of files that are read besides those of --input."""
        return ()

    @property
    def kind(self) -> FileKind:
        """Return the kind of files to search a folder for, without those of --exclude."""
        return replace(self.file_kind, exclude=self.exclude, used=self.given_texts)

    @property
    def split(self) -> job_options.SplitOptions:
        """Return the options that assign examples to splits."""
        split = self.subset(job_options.SplitOptions)
        has_groups = self.folders is not None and self.folders.group is not None
        return replace(split, group_by=job_options.FOLDER) if has_groups else split

    @property
    def classes(self) -> LabelOptions:
        """Return the options of class names."""
        return self.subset(LabelOptions)

    @property
    def stream(self) -> StreamAddOn | None:
        """Return the hooks of the add-on that changes records before they are keyed; None without one."""
        return next((load(options.stream).of(options) for options in self.add_ons if options.stream), None)

    @cached_property
    def analysis(self) -> "Analysis | None":
        """Return the hooks of the add-on that analyzes all examples; None without one."""
        return next((load(options.analysis)(options, self) for options in self.add_ons if options.analysis), None)

    @property
    def columns_by_flag(self) -> dict[str, tuple[str, ...]]:
        """Return the columns that flags of add-ons name."""
        named = ((name, getattr(options, name)) for options in self.add_ons for name in options.by_column)
        return {f"--{name}": tuple(dict(pairs)) for name, pairs in named}

    @property
    def is_reuse_requested(self) -> str | None:
        """Return the value of --reuse; None if the job has no such option."""
        return getattr(self, "reuse", None)

    @property
    def schema_text(self) -> str:
        """Return the text of the schema.pbtxt that was given; "" for none."""
        return ""

    @property
    def libraries(self) -> tuple[str, ...]:
        """Return the libraries whose release can change the output's bytes."""
        return ("xxhash",)

    @property
    def schema_requests(self) -> str:
        """Return the constraints of --schema, by the output names of features; see shardmill.metadata.schema."""
        return ""

    @property
    def temporary(self) -> str:
        """Return the name of the job's temporary folder in the version's folder."""
        return file_names.temporary_folder(self.name, self.job)

    @property
    def shard_counts(self) -> "dict[str, ShardCount]":
        """Return the shard count of each split; the key "" holds that of all other splits."""
        from shardmill.transforms.shards.balance import ShardCount

        assert not isinstance(self.num_shards, tuple)
        size_bytes = None if self.num_shards else self.shard_size or job_options.DEFAULT_SHARD_SIZE
        others = ShardCount(self.num_shards, size_bytes)
        return {"": others, **{name: ShardCount(count) for name, count in self.split_shards}}

    @property
    def options(self) -> tuple[Option, ...]:
        """Return all options of the configuration, with those of its add-ons."""
        return insert_options(options_of(type(self)), map(type, self.add_ons))

    def to_json(self) -> dict[str, Any]:
        """Return the options that shape the output, for the manifest: common options, the format, then the others."""
        recorded = super().to_json()
        for options in self.add_ons:
            recorded |= options.to_json()
        shaping = {option.field: recorded.pop(option.field) for option in self.options if option.field in recorded}
        shaping |= recorded
        common = {option.field for option in options_of(JobConfig)}
        of_all = (type(options) for options in self.add_ons if options.precedes in common)
        common |= {option.field for options in of_all for option in options_of(options)}
        named = {"format": self.format_name} if self.format_name else {}
        return dict(mask_urls({name: value for name, value in shaping.items() if name in common} | named | shaping))
