"""The summary of a finished job as plain text, and the tables and numbers in it."""

import glob
import io
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from shardmill.data.features import features_of_kind, find_incomplete, translated_features
from shardmill.errors import CorruptDataError, UserError
from shardmill.metadata.file_names import shards_glob
from shardmill.metadata.manifest import Manifest, SplitEntry
from shardmill.metadata.tfds_metadata import TFDS_CANNOT
from shardmill.pipelines.config.job import JobConfig
from shardmill.quality.profile import Profile
from shardmill.quality.stats_file import FeatureSummary
from shardmill.quality.stats_values import Distinct, Number, Numbers
from shardmill.reading.dataset import Dataset, choose_columns, has_tensorflow_files, open_dataset, supervised_pair
from shardmill.text import plural, to_printable
from shardmill.transforms.options.job_options import NO, RECORD
from shardmill.transforms.shards.sources import FileIndex, read_index
from shardmill.transforms.stores import storage
from shardmill.transforms.workers.rejects import RejectsPart, first_reject

QUANTILES = ("0.05", "0.5", "0.95")  # that a row has room for

_EXPONENT_FROM = 1e15  # from which a number is written with an exponent
_ROUNDED_FROM = 1e4  # from which a fraction's decimals say nothing


def format_number(value: Number | None, missing: str = "") -> str:
    """Format a number with thousands separators, fractions to four digits; return `missing` for None."""
    if value is None:
        return missing
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value):
        return str(value)
    if _ROUNDED_FROM <= abs(value) < _EXPONENT_FROM:
        return f"{value:,.0f}"
    return f"{value:,.4g}"


def format_share(part: float, total: float) -> str:
    """Format a part as a percentage: never 0 % for something, nor 100 % for less than all."""
    if not total or not part:
        return "0 %"
    percent = 100 * part / total
    if part < total:
        percent = min(percent, 99.9)
    if percent < 0.1:
        return "under 0.1 %"
    return f"{percent:.0f} %" if percent == 100 else f"{percent:.1f} %"


def human_size(size_bytes: int) -> str:
    """Format a size in bytes with a decimal unit."""
    size = float(size_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if round(size, 1) < 1000:  # 999,999 bytes are 1.0 MB
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def format_range(numbers: Collection[int], words: Callable[[int], str] = "{:,}".format) -> str:
    """Format the least and the greatest of `numbers`, once if they are equal."""
    least, greatest = words(min(numbers)), words(max(numbers))
    return least if least == greatest else f"{least} to {greatest}"


def format_distinct(distinct: Distinct | None) -> str:
    """Format the number of distinct values, with a `~` before an estimate."""
    if distinct is None:
        return ""
    return f"{'' if distinct.is_exact else '~'}{distinct.count:,}"


def main_numbers(summary: FeatureSummary) -> tuple[str, Numbers | None]:
    """Return the numbers that describe a feature best, with their name: values (""), lengths or file sizes; or None."""
    for word, numbers in (
        ("", summary.numbers),
        ("all values", summary.values),
        ("length in bytes", summary.length_bytes),
        ("size in bytes", summary.size_bytes),
    ):
        if numbers is not None:
            return word, numbers
    return "", None


def range_figures(numbers: Numbers | None) -> tuple[str, ...]:
    """Format the minimum, the quantiles and the maximum of a feature; "" for each if nothing was measured."""
    if numbers is None:
        return ("",) * (len(QUANTILES) + 2)
    is_constant = numbers.minimum is not None and numbers.minimum == numbers.maximum
    between = (dict.fromkeys(QUANTILES, numbers.minimum) if is_constant else numbers.quantiles or {}).get
    return tuple(map(format_number, (numbers.minimum, *map(between, QUANTILES), numbers.maximum)))


_SPLIT_COLUMNS = 100  # characters of a line, where nothing else is asked for


def new_table(left: Iterable[str], right: Iterable[str] = (), folded: Iterable[str] = ()) -> Table:
    """Return a table without lines, whose columns are aligned left or right, or whose cells are folded."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in left:
        table.add_column(title)
    for title in right:
        table.add_column(title, justify="right")
    for title in folded:
        table.add_column(title, overflow="fold")
    return table


def table_text(table: Table, columns: int = _SPLIT_COLUMNS) -> str:
    """Return a table as text, at most `columns` characters wide, without trailing spaces.

    Cells are shown literally even if they contain `[b]` or `:cat:`, and without colours even if FORCE_COLOR is set.
    A notebook displays nothing meanwhile.
    """
    text = io.StringIO()
    plain: dict[str, Any] = {"markup": False, "emoji": False, "force_terminal": False, "force_jupyter": False}
    console = Console(file=text, width=columns, color_system=None, **plain)
    console.print(table)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


SHARDS_A_SLOT = 4  # at least, or slots are idle while the last shards are written: docs/clusters.md
# Requests to a store, as tests/end_to_end/stores/test_requests.py counts them: leases, metadata files and
# publication; each shard, which is uploaded, looked at and renamed; each run, with its keys and what its records hold
_A_JOB, _A_SHARD, _A_RUN = 75, 7, 11


@dataclass(frozen=True, slots=True)
class JobWork:
    """The amount of work of a job, as its dry run reports it."""

    tasks: int  # parts of the input, each done by one worker
    shards: int  # files that are written
    reads: int  # requests for the input, if it is in a store
    runs: int = 0  # sorted runs of records; 0 for whole files
    size_bytes: int | None = None  # approximate output; None if only the input's is known
    is_remote: tuple[bool, bool] = (False, False)  # (input, output) are in a store

    @property
    def slices(self) -> int:
        """The largest number of sorted pieces that all shards together are merged from."""
        return self.runs * self.shards

    @property
    def requests(self) -> int:
        """Return the approximate number of requests to stores."""
        read, written = self.is_remote
        runs = self.runs * _A_RUN + self.slices
        return self.reads * read + (_A_JOB + self.shards * _A_SHARD + runs) * written

    def sentences(self, slots: int) -> Iterator[str]:
        """Yield the lines of --dry_run about work, for workers that run `slots` steps at once; 0 if that is unknown."""
        about = "" if self.size_bytes is not None else "about "
        shards = f"{about}{plural(self.shards, 'shard')}"
        between = f", {plural(self.runs, 'run')}, at most {self.slices:,} slices" if self.runs else ""
        yield f"Work: {plural(self.tasks, 'task')}{between}, {shards}"
        if self.size_bytes is None:
            yield "Temporary space: as large as all shards, for runs"
        else:
            yield f"Temporary space: the shards themselves, about {human_size(self.size_bytes)}"
        if any(self.is_remote):
            yield f"Requests to stores: about {self.requests:,}"
        if slots > 1 and self.shards < slots * SHARDS_A_SLOT:  # one alone is never idle for lack of shards
            yield (
                f"NOTE: {shards} for {slots:,} workers at once:"
                f" expected {slots * SHARDS_A_SLOT:,} at least (--num_shards, or a smaller --shard_size), or some are"
                " idle while the last shards are written"
            )


def read_file_index(config: JobConfig, manifest_crc32c: str) -> FileIndex | None:
    """Read the file index of the version that `config` published, whose manifest has this checksum, with --reuse."""
    if config.is_reuse_requested in (None, NO):
        return None
    return read_index(config.parent, config.version, manifest_crc32c)


def reuse_lines(config: JobConfig, index: FileIndex | None) -> list[str]:
    """Return a line on how many files were copied from the previous version instead of read, or why none was."""
    return [index.describe_reuse()] if index is not None and config.is_reuse_requested != RECORD else []


_CLASSES_SHOWN, _ENDS_SHOWN = 7, 3  # names: of more, as many of the first and of the last
_REASONS_SHOWN = 5  # for which records were rejected: the most frequent
_LETTERS_SHOWN = 40  # of a name


def job_summary(
    config: JobConfig,
    dataset: Dataset,
    index: FileIndex | None = None,
    columns: Sequence[str] = (),
    shows_all_code: bool = True,
) -> str:
    """Return the summary, as text, of the version that a job has just made.

    `index` is its file index, if it keeps one; `columns` are the lines about its features. One line shows how to read
    it, or with `shows_all_code` a block for each library.
    """
    lines = [dataset.directory, *splits_table(dataset).split("\n")]
    lines += ["", *columns, ""] if columns else []
    lines += class_lines(dataset.manifest)
    rejects = dataset.manifest.rejects
    if rejects["records"]:
        lost = rejects.get("lost", {})
        about = "about " if lost.get("estimated") else "at least " if lost.get("uncounted_files") else ""
        read = dataset.manifest.input["records"]
        lines.append(f"{about}{rejects['records']:,} of {read:,} records rejected; see {dataset.directory}/rejects/:")
        reasons = sorted(rejects["reasons"].items(), key=lambda item: (-item[1], item[0]))
        lines += [f"  {times:,} x {reason}" for reason, times in reasons[:_REASONS_SHOWN]]
    lines += reuse_lines(config, index)
    lines += [f"NOTE: {notice}" for notice in dataset.manifest.notices]
    code = reading_code(dataset)
    short = next(line for line in code if "shardmill." in line).partition("  # ")[0].strip()
    lines += [*([""] if lines[-1] else []), *(["Read it:", *code] if shows_all_code else [f"Read it: {short}"])]
    return "\n".join(map(to_printable, lines))


def class_lines(manifest: Manifest) -> list[str]:
    """Return lines with the number of classes and the first and last names, which show folders that were misread."""
    labels = features_of_kind(manifest.features, "class_label")
    # If each example names its file, the class comes from the file's folder. The same is true of lines, which name
    # their file only with --line_numbers.
    by_folder = manifest.configuration.get("format") == "lines" or any(
        feature.role == "source" for feature in manifest.features
    )
    others = [feature.name for feature in manifest.features if feature.role == "label"]
    languages = translated_features(manifest.configuration)
    if not labels and languages:
        return [f"Classes: none; {', '.join(map(repr, languages[:-1]))} and {languages[-1]!r} are parallel texts"]
    if not labels and by_folder:
        label = f"the label is {', '.join(map(repr, others))}" if others else "the examples are unlabelled"
        return [f"Classes: none; {label}"]
    return [
        f"Classes of {label.name!r}: {len(label.class_names):,}: {join_first_and_last(label.class_names)}"
        for label in labels
    ]


def join_first_and_last(names: Sequence[str]) -> str:
    """Join the names, or only the first and the last few of many."""
    shown = [*names[:_ENDS_SHOWN], "…", *names[-_ENDS_SHOWN:]] if len(names) > _CLASSES_SHOWN else names
    return ", ".join(shorten_name(name) for name in shown)


def dry_run_rejects(parts: Iterable[RejectsPart]) -> list[str]:
    """Return a dry run's line on rejects; [] if there are none."""
    known = list(parts)
    first = first_reject(known)
    if first is None:
        return []
    rejects = sum(part.rejects for part in known)
    return [f"Rejected so far: {rejects:,}, such as {first.source!r}: {first.reason}"]


def shorten_name(name: str) -> str:
    """Escape unprintable characters of a name, and cut it to its first letters."""
    shown = to_printable(name)
    return shown if len(shown) <= _LETTERS_SHOWN else f"{shown[: _LETTERS_SHOWN - 1]}…"


def splits_table(dataset: Dataset, shown: Sequence[SplitEntry] | None = None) -> str:
    """Return a table with a row for each split, or each of `shown`; with all splits, also one for other rejects."""
    table = new_table(left=["split"], right=["examples", "shards", "smallest", "largest", "bytes", "rejected"])
    splits, rejected_without_split = dataset.manifest.splits, dataset.manifest.rejected_without_split
    for split in splits if shown is None else shown:
        counts = [shard.examples for shard in split.shards] or [0]
        numbers = (split.examples, len(split.shards), min(counts), max(counts))
        table.add_row(split.name, *map(format_number, numbers), human_size(split.size_bytes), f"{split.rejected:,}")
    if rejected_without_split > 0 and (shown is None or len(shown) == len(splits)):
        table.add_row("(no split)", "", "", "", "", "", f"{rejected_without_split:,}")
    return table_text(table)


def reading_code(dataset: Dataset) -> list[str]:
    """Return Python code that reads the data set, with shardmill and with other libraries."""
    codec = dataset.manifest.codec
    split = next((split.name for split in dataset.manifest.splits if split.shards), "train")
    ours = _own_reader(dataset, split)
    scheme = dataset.directory.rpartition("://")[0]
    if settings := _SETTINGS.get(scheme):
        ours = [f"  # the environment says how the store is reached: {settings}", *ours]
    has_animations = any(notice.startswith(TFDS_CANNOT) for notice in dataset.manifest.notices)
    # The library of ArrayRecord opens local files alone
    reads_path = has_tensorflow_files(dataset.directory) if codec.is_read_by_tensorflow else not scheme
    if (has_animations and not dataset.manifest.has_raw_records) or not reads_path:
        return ours
    return [*ours, "or, without shardmill:", *_other_readers(dataset, split)]


# The variables of the stores' clients, by which readers find a store; a job may have been given flags instead
_SETTINGS = {
    "gs": "GOOGLE_APPLICATION_CREDENTIALS, or STORAGE_EMULATOR_HOST",
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; AWS_ENDPOINT_URL if it is not Amazon's",
    "az": "AZURE_STORAGE_CONNECTION_STRING, or what DefaultAzureCredential finds",
}


_MAX_DEFAULTS = 8  # in the code that reads a data set; with more, it reads plain examples


def _own_reader(dataset: Dataset, split: str) -> list[str]:
    """Return code that reads with shardmill: tensors, or plain examples if these need fewer words."""
    arguments = f"{dataset.directory!r}, split={split!r}"
    if dataset.manifest.has_raw_records:
        return ["  import shardmill", f"  records = (each['record'] for each in shardmill.examples({arguments}))"]
    try:
        incomplete = find_incomplete(choose_columns(dataset.manifest, None, None, True).all_features)
    except UserError:  # of examples that have a label and nothing else
        incomplete = None
    if incomplete is None or len(incomplete) > _MAX_DEFAULTS:
        return ["  import shardmill", f"  examples = shardmill.examples({arguments})"]
    defaults = ""
    if incomplete:
        from shardmill.reading.plain_examples import suggest_defaults

        defaults = f", defaults={suggest_defaults(incomplete)}"
    pixels = next((f"  # {hint}" for hint in pixel_hints(dataset)), "")
    return ["  import shardmill", f"  dataset = shardmill.load({arguments}{defaults}){pixels}"]


def pixel_hints(dataset: Dataset) -> list[str]:
    """Return hints on the pixels that `shardmill.load` returns, if there are images."""
    if not features_of_kind(dataset.manifest.features, "image"):
        return []
    return ["images are float32 in [0, 1]: no Rescaling(1/255); image_size=(224, 224) scales them to one size"]


def _other_readers(dataset: Dataset, split: str) -> list[str]:
    codec = dataset.manifest.codec
    if not dataset.manifest.is_read_by_tfds:
        pattern = shards_glob(dataset.manifest.name, split, codec, dataset.manifest.file_template)
        return [f"  {line}" for line in codec.reading_code_lines(f"{glob.escape(dataset.directory)}/{pattern}")]
    method = "as_dataset" if codec.is_read_by_tensorflow else "as_data_source"
    supervised = ", as_supervised=True" if codec.is_read_by_tensorflow and supervised_pair(dataset.manifest) else ""
    return [
        "  import tensorflow_datasets as tfds",
        f"  builder = tfds.builder_from_directory({dataset.directory!r})",
        f"  dataset = builder.{method}(split={split!r}{supervised})",
    ]


def read_profile(directory: str) -> Profile | None:
    """Read the profile of a version, or of LATEST's version in a data set's folder; None if it cannot be read."""
    with suppress(UserError, CorruptDataError, OSError):
        return opened_profile(open_dataset(directory, storage.StorageFiles()))
    return None


def opened_profile(dataset: Dataset) -> Profile | None:
    """Read the profile of an opened version; None if its statistics cannot be read."""
    with suppress(UserError, CorruptDataError, OSError):
        return Profile(dataset.manifest, dataset.stats())
    return None
