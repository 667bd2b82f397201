"""What every job is told, validated. Frozen: what a flag says is said once."""

import uuid
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from pipelines.flags.options import ON_DAMAGED_FILE
from shardmill import naming
from shardmill.errors import UserError
from shardmill.labels import ON_NEW_LABEL
from shardmill.renames import Renames
from transforms.inputs.folders import FolderRoles
from transforms.inputs.listing import input_root
from transforms.sharding.balance import MAX_SHARDS, ShardCount
from transforms.stores import storage

DEFAULT_SHARD_SIZE = 128 << 20  # bytes: the 100 to 200 MB that TensorFlow's and TFDS's guides recommend


@dataclass(frozen=True, slots=True, kw_only=True)
class JobConfig:
    """What every job is told: where it writes, how it splits, orders and shards; see pipelines.flags.options."""

    output: str
    name: str
    input: str | None = None
    version: str = "1.0.0"
    splits: tuple[tuple[str, Fraction], ...] | None = None
    group_by: str | None = None
    stratify_by: str | None = None
    seed: int = 0
    split_seed: int = 0
    no_shuffle: bool = False
    shard_size: int | None = None
    num_shards: int | None = None
    split_shards: tuple[tuple[str, int], ...] = ()
    balance: str = "examples"
    compression: str = "none"
    folders: FolderRoles | None = None
    rename: tuple[tuple[str, str], ...] = ()
    labels: tuple[str, ...] | None = None
    on_new_label: str = "fail"
    max_reject_fraction: float = 0.01
    on_damaged_file: str = "fail"
    threads: int = 0
    overwrite: bool = False
    job: str = field(default_factory=lambda: uuid.uuid4().hex, compare=False)  # a nonce: chosen here, once, for all attempts

    def __post_init__(self) -> None:
        for flag, path in (("--input", self.input), ("--output", self.output)):
            check_path(flag, path)
        check(naming.is_dataset_name(self.name), f"--name {self.name!r}: expected a letter, then letters, digits and '_'")
        check(naming.is_version(self.version), f"--version {self.version!r}: expected three numbers, such as 1.0.0")
        self._check_splits()
        self._check_shards()
        _ = self.renames  # built to be checked
        check(self.on_new_label in ON_NEW_LABEL, f"--on_new_label {self.on_new_label}: expected one of {ON_NEW_LABEL}")
        if self.on_new_label != "fail" and self.labels is None:
            raise UserError(f"--on_new_label {self.on_new_label} needs --labels_file")
        check(0 <= self.max_reject_fraction <= 1, f"--max_reject_fraction {self.max_reject_fraction}: expected 0 to 1")
        check(
            self.on_damaged_file in ON_DAMAGED_FILE, f"--on_damaged_file {self.on_damaged_file}: expected one of {ON_DAMAGED_FILE}"
        )
        check(0 <= self.threads <= 256, f"--threads {self.threads}: expected 0 (chosen for you) to 256")
        for flag, seed in (("--seed", self.seed), ("--split_seed", self.split_seed)):
            check(0 <= seed < 1 << 64, f"{flag} {seed}: expected 0 to 2^64 - 1")
        if self.seed and self.no_shuffle:
            raise UserError(
                f"--seed {self.seed} contradicts --no_shuffle: there is no order to draw; --split_seed is for the splits"
            )

    def _check_splits(self) -> None:
        if self.group_by is not None and self.stratify_by is not None:
            raise UserError(
                "--group_by and --stratify_by contradict each other: whole groups cannot be cut exactly; give one of them"
            )
        for flag, column in (("--group_by", self.group_by), ("--stratify_by", self.stratify_by)):
            if column is not None and self.splits is None:
                raise UserError(f"{flag} {column} needs --splits")
        names = [name for name, _ in self.splits or ()]
        for name, count in self.split_shards:
            if names and name not in names:
                raise UserError(f"--num_shards {name}={count}: no such split; --splits has {', '.join(names)}")

    def _check_shards(self) -> None:
        if self.num_shards is not None and self.shard_size is not None:
            raise UserError("give --num_shards or --shard_size, not both")
        for count in [*([self.num_shards] if self.num_shards is not None else []), *(n for _, n in self.split_shards)]:
            check(1 <= count <= MAX_SHARDS, f"--num_shards {count}: expected 1 to {MAX_SHARDS:,} for a split")
        if self.shard_size is not None:
            check(self.shard_size >= 1, f"--shard_size {self.shard_size}: expected at least 1 byte")

    @property
    def source(self) -> str:
        """The input as errors call it."""
        return f"--input {self.input}"

    @property
    def root(self) -> str:
        """The folder that names are relative to."""
        assert self.input is not None
        return input_root(self.input)

    @property
    def renames(self) -> Renames:
        """What features are called in examples."""
        return Renames(self.rename)

    @property
    def directory(self) -> str:
        """The data set's version directory."""
        return storage.join(storage.join(self.output, self.name), self.version)

    @property
    def temporary(self) -> str:
        """The name of the job's temporary directory, in the version directory."""
        return naming.temporary_folder(self.name, self.job)

    @property
    def shard_counts(self) -> dict[str, ShardCount]:
        """How many shards each split gets; `""` for the splits not named."""
        others = ShardCount(self.num_shards) if self.num_shards else ShardCount(size_bytes=self.shard_size or DEFAULT_SHARD_SIZE)
        return {"": others, **{name: ShardCount(count) for name, count in self.split_shards}}

    def to_json(self) -> dict[str, Any]:
        """The options that shape the output, for the manifest; not where it lies or how it was computed."""
        return {
            "splits": {name: str(fraction) for name, fraction in self.splits} if self.splits else None,
            "group_by": self.group_by,
            "stratify_by": self.stratify_by,
            "seed": self.seed,
            "split_seed": self.split_seed,
            "no_shuffle": self.no_shuffle,
            "shard_size": self.shard_size or (None if self.num_shards else DEFAULT_SHARD_SIZE),
            "num_shards": self.num_shards,
            "split_shards": dict(self.split_shards),
            "balance": self.balance,
            "compression": self.compression,
            "folders": str(self.folders) if self.folders is not None else None,
            "rename": dict(self.rename),
            "labels": list(self.labels) if self.labels is not None else None,
            "on_new_label": self.on_new_label,
            "max_reject_fraction": self.max_reject_fraction,
            "on_damaged_file": self.on_damaged_file,
        }


def check_path(flag: str, path: str | None) -> None:
    """Raise a UserError if `path`, where given, can be none."""
    if path is None:
        return
    if not path:
        raise UserError(f"{flag} is empty; expected a path or a URL")
    try:
        path.encode()
    except UnicodeEncodeError:
        raise UserError(f"{flag} {path}: the path is not UTF-8; rename the folder, or give a link to it") from None


def check(right: bool, sentence: str) -> None:
    """Raise a UserError that says `sentence` unless `right`."""
    if not right:
        raise UserError(sentence)
