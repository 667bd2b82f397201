"""What an images job is told, validated. Frozen: what a flag says is said once."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from shardmill import naming
from shardmill.errors import UserError
from shardmill.labels import ON_NEW_LABEL
from transforms import storage
from transforms.balance import MAX_SHARDS, ShardCount
from transforms.encode_images import MAX_PIXELS, VERIFY
from transforms.image_codec import Reencode
from transforms.image_manifest import is_textual
from transforms.layout import LayoutOptions
from transforms.listing import input_root
from transforms.resolve import ResolveOptions

DEFAULT_SHARD_SIZE = 128 << 20  # bytes: the 100 to 200 MB that TensorFlow's and TFDS's guides recommend
DEFAULT_QUALITY = 95  # of JPEG: beyond it Pillow's files grow without a visible gain
# Bytes a pixel of re-encoded photographs, to plan with: jpeg at quality 95, and png.
_BYTES_PER_PIXEL = {"jpeg": 0.5, "png": 2.0, "": 0.5}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagesConfig:
    """The flags of `shardmill images`; see pipelines.options for what each means."""

    output: str
    name: str
    input: str | None = None
    manifest: str | None = None
    version: str = "1.0.0"
    allow_outside: bool = False
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
    labels: tuple[str, ...] | None = None
    on_new_label: str = "fail"
    verify: str = "header"
    image_format: str = ""
    resize: tuple[int, int] | None = None
    resize_mode: str = "exact"
    jpeg_quality: int = DEFAULT_QUALITY
    max_pixels: int = MAX_PIXELS
    max_reject_fraction: float = 0.01
    threads: int = 0
    overwrite: bool = False

    def __post_init__(self) -> None:
        if (self.input is None) == (self.manifest is None):
            raise UserError("give either --input, a folder or a glob, or --manifest, a .csv or .jsonl file")
        for flag, path in (("--input", self.input), ("--manifest", self.manifest), ("--output", self.output)):
            _check_path(flag, path)
        if self.manifest is not None:
            is_textual(self.manifest)
        elif self.allow_outside:
            raise UserError("--allow_outside is about the names in a --manifest; with --input it has no meaning")
        _check(naming.is_dataset_name(self.name), f"--name {self.name!r}: expected a letter, then letters, digits and '_'")
        _check(naming.is_version(self.version), f"--version {self.version!r}: expected three numbers, such as 1.0.0")
        self._check_splits()
        self._check_shards()
        _check(self.on_new_label in ON_NEW_LABEL, f"--on_new_label {self.on_new_label}: expected one of {ON_NEW_LABEL}")
        if self.on_new_label != "fail" and self.labels is None:
            raise UserError(f"--on_new_label {self.on_new_label} needs --labels_file")
        _check(self.verify in VERIFY, f"--verify {self.verify}: expected one of {VERIFY}")
        if self.resize is None and self.resize_mode != "exact":
            raise UserError(f"--resize_mode {self.resize_mode} needs --resize")
        _check(0 <= self.max_reject_fraction <= 1, f"--max_reject_fraction {self.max_reject_fraction}: expected 0 to 1")
        _check(1 <= self.jpeg_quality <= 100, f"--jpeg_quality {self.jpeg_quality}: expected 1 to 100")
        _check(self.max_pixels > 0, f"--max_pixels {self.max_pixels}: expected a positive number")
        _check(0 <= self.threads <= 256, f"--threads {self.threads}: expected 0 (chosen for you) to 256")
        for flag, seed in (("--seed", self.seed), ("--split_seed", self.split_seed)):
            _check(0 <= seed < 1 << 64, f"{flag} {seed}: expected 0 to 2^64 - 1")

        self._check_effects()

    def _check_effects(self) -> None:
        """Refuse what would be accepted and then ignored."""
        if self.jpeg_quality != DEFAULT_QUALITY and (self.reencode is None or self.image_format == "png"):
            raise UserError(f"--jpeg_quality {self.jpeg_quality} needs --resize or --image_format jpeg: no JPEG is made without")
        if self.max_pixels != MAX_PIXELS and self.verify == "none" and self.reencode is None:
            raise UserError(f"--max_pixels {self.max_pixels} contradicts --verify none, which does not look into images")
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
            _check(1 <= count <= MAX_SHARDS, f"--num_shards {count}: expected 1 to {MAX_SHARDS:,} for a split")
        if self.shard_size is not None:
            _check(self.shard_size >= 1, f"--shard_size {self.shard_size}: expected at least 1 byte")

    @property
    def source(self) -> str:
        """The input as errors call it."""
        return f"--input {self.input}" if self.input is not None else f"--manifest {self.manifest}"

    @property
    def root(self) -> str:
        """The folder that names are relative to."""
        if self.input is not None:
            return input_root(self.input)
        assert self.manifest is not None
        return self.manifest.rpartition("/")[0] or ("/" if self.manifest.startswith("/") else ".")

    @property
    def directory(self) -> str:
        """The data set's version directory."""
        return storage.join(storage.join(self.output, self.name), self.version)

    @property
    def reencode(self) -> Reencode | None:
        """How images are re-encoded, None where their bytes pass through."""
        if not self.image_format and self.resize is None:
            return None
        return Reencode(self.image_format, self.resize, self.resize_mode, self.jpeg_quality)

    @property
    def shard_counts(self) -> dict[str, ShardCount]:
        """How many shards each split gets; `""` for the splits not named."""
        others = ShardCount(self.num_shards) if self.num_shards else ShardCount(size_bytes=self.shard_size or DEFAULT_SHARD_SIZE)
        return {"": others, **{name: ShardCount(count) for name, count in self.split_shards}}

    @property
    def layout_options(self) -> LayoutOptions:
        """What the layout is decided with."""
        split_shards = tuple(name for name, _ in self.split_shards)
        return LayoutOptions(
            self.source, self.splits, self.group_by, self.stratify_by, self.labels, self.on_new_label, split_shards
        )

    @property
    def resolve_options(self) -> ResolveOptions:
        """What keys and sizes are computed with."""
        record_bytes = None
        if self.resize is not None:
            record_bytes = int(self.resize[0] * self.resize[1] * _BYTES_PER_PIXEL[self.image_format])
        return ResolveOptions(self.seed, self.split_seed, self.group_by, self.stratify_by, record_bytes)

    @property
    def read_threads(self) -> int:
        """How many threads of a worker read and encode; 0 stands for the number of its cores.

        Reading small local files is a matter of microseconds, in which threads only contend for the interpreter; decoding
        runs outside it; and an object store answers after milliseconds, whatever the machine.
        """
        if self._is_remote:
            return self.threads or 32
        return self.threads if self._decodes else self.threads or 1

    @property
    def files_per_task(self) -> int:
        """How many files a thread takes at once: few where each takes long."""
        return 4 if self._is_remote else 8 if self._decodes else 64

    @property
    def _is_remote(self) -> bool:
        return not storage.is_local(self.root) or self.allow_outside

    @property
    def _decodes(self) -> bool:
        return self.reencode is not None or self.verify == "decode"

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
            "labels": list(self.labels) if self.labels is not None else None,
            "on_new_label": self.on_new_label,
            "allow_outside": self.allow_outside,
            "verify": self.verify,
            "image_format": self.image_format or None,
            "resize": list(self.resize) if self.resize else None,
            "resize_mode": self.resize_mode,
            "jpeg_quality": self.jpeg_quality,
            "max_pixels": self.max_pixels,
            "max_reject_fraction": self.max_reject_fraction,
        }


def _check_path(flag: str, path: str | None) -> None:
    if path is None:
        return
    if not path:
        raise UserError(f"{flag} is empty; expected a path or a URL")
    try:
        path.encode()
    except UnicodeEncodeError:
        raise UserError(f"{flag} {path}: the path is not UTF-8; rename the folder, or give a link to it") from None


def _check(right: bool, sentence: str) -> None:
    if not right:
        raise UserError(sentence)
