"""What is printed when a job is done: a table of the splits, what there is to know, and the lines that read the
result."""

from collections.abc import Iterable, Sequence

from rich.table import Table

from shardmill.features.feature import of_kind
from shardmill.features.translation import languages_of
from shardmill.metadata.manifest import Manifest, SplitEntry
from shardmill.metadata.naming import shards_glob
from shardmill.pipelines.config.job import JobConfig
from shardmill.pipelines.reports.figures import human_size
from shardmill.pipelines.reports.reuse import reuse_lines
from shardmill.pipelines.reports.text_table import text_of
from shardmill.printable import printable
from shardmill.reading.dataset import Dataset
from shardmill.reading.selection import supervised_of
from shardmill.transforms.files.features import TFDS_CANNOT
from shardmill.transforms.publishing.file_index import FileIndex
from shardmill.transforms.rejects.part import RejectsPart, first_of

_CLASSES_SHOWN, _ENDS_SHOWN = 7, 3  # names: of more, as many of the first and of the last
_REASONS_SHOWN = 5  # for which records were rejected: the most frequent
_LETTERS_SHOWN = 40  # of a name


def summary(config: JobConfig, dataset: Dataset, index: FileIndex | None = None) -> str:
    """The report on a data set that `config` has made just now, with the index of its files if it keeps one."""
    lines = [dataset.directory, *splits_table(dataset).split("\n")]
    lines += class_lines(dataset.manifest)
    rejects = dataset.manifest.rejects
    if rejects["records"]:
        lost = rejects.get("lost", {})
        about = "about " if lost.get("estimated") else "at least " if lost.get("uncounted_files") else ""
        read = dataset.manifest.input["records"]
        lines.append(f"{about}{rejects['records']:,} of {read:,} records rejected; see {dataset.directory}/rejects/:")
        lines += [f"  {times:,} x {reason}" for reason, times in _top(rejects["reasons"])]
    lines += reuse_lines(config, index)
    lines += [f"NOTE: {notice}" for notice in dataset.manifest.notices]
    lines += ["", "Read it:", *reading_code(dataset)]
    return "\n".join(map(printable, lines))


def class_lines(manifest: Manifest) -> list[str]:
    """How many classes there are and which, the first and last few of many: a wrong reading of the folders is seen
    here."""
    labels = of_kind(manifest.features, "class_label")
    # Where shardmill says of each example which file it is of, the class would be that of the file's folder; it would
    # be of lines, too, which say that only when asked
    by_folder = manifest.configuration.get("format") == "lines" or any(
        feature.role == "source" for feature in manifest.features
    )
    others = [feature.name for feature in manifest.features if feature.role == "label"]
    languages = languages_of(manifest.configuration)
    if not labels and languages:
        return [f"Classes: none; {', '.join(map(repr, languages[:-1]))} and {languages[-1]!r} are parallel texts"]
    if not labels and by_folder:
        label = f"the label is {', '.join(map(repr, others))}" if others else "the examples are unlabelled"
        return [f"Classes: none; {label}"]
    return [
        f"Classes of {label.name!r}: {len(label.class_names):,}: {first_and_last(label.class_names)}"
        for label in labels
    ]


def first_and_last(names: Sequence[str]) -> str:
    """All of some names, or the first and the last few of many."""
    shown = [*names[:_ENDS_SHOWN], "…", *names[-_ENDS_SHOWN:]] if len(names) > _CLASSES_SHOWN else names
    return ", ".join(shortened(name) for name in shown)


def rejected_so_far(parts: Iterable[RejectsPart]) -> list[str]:
    """What a dry run says of rejects; nothing where there are none."""
    known = list(parts)
    first = first_of(known)
    if first is None:
        return []
    rejects = sum(part.rejects for part in known)
    return [f"Rejected so far: {rejects:,}, such as {first.source!r}: {first.reason}"]


def shortened(name: str) -> str:
    """A name as a terminal is given it, what is not printable escaped, cut to its first letters."""
    shown = printable(name)
    return shown if len(shown) <= _LETTERS_SHOWN else f"{shown[: _LETTERS_SHOWN - 1]}…"


def splits_table(dataset: Dataset, shown: Sequence[SplitEntry] | None = None) -> str:
    """A table with a row for each split, or those `shown`; beside all, one for records that were rejected of none."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("split")
    for title in ("examples", "shards", "smallest", "largest", "bytes", "rejected"):
        table.add_column(title, justify="right")
    splits, apart = dataset.manifest.splits, dataset.manifest.rejected_of_no_split
    for split in splits if shown is None else shown:
        table.add_row(*_cells(split))
    if apart > 0 and (shown is None or len(shown) == len(splits)):
        table.add_row("(no split)", "", "", "", "", "", f"{apart:,}")
    return text_of(table)


def _cells(split: SplitEntry) -> list[str]:
    counts = [shard.examples for shard in split.shards] or [0]
    return [
        split.name,
        f"{split.examples:,}",
        f"{len(split.shards):,}",
        f"{min(counts):,}",
        f"{max(counts):,}",
        human_size(split.size_bytes),
        f"{split.rejected:,}",
    ]


def _top(reasons: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(reasons.items(), key=lambda item: (-item[1], item[0]))[:_REASONS_SHOWN]


def reading_code(dataset: Dataset) -> list[str]:
    """Python that reads the data set: with this package, and with what else can read it."""
    split = next((split.name for split in dataset.manifest.splits if split.shards), "train")
    pixels = next((f"  # {hint}" for hint in pixel_hints(dataset)), "")
    ours = [
        "  import shardmill",
        f"  dataset = shardmill.load({dataset.directory!r}, split={split!r}){pixels}",
    ]
    if any(notice.startswith(TFDS_CANNOT) for notice in dataset.manifest.notices):
        return ours
    return [*ours, "or, without shardmill:", *_others(dataset, split)]


def pixel_hints(dataset: Dataset) -> list[str]:
    """What must be known of the pixels that `shardmill.load` gives, where there are images."""
    if not of_kind(dataset.manifest.features, "image"):
        return []
    return ["images are float32 in [0, 1]: no Rescaling(1/255); image_size=(224, 224) scales them to one size"]


def _others(dataset: Dataset, split: str) -> list[str]:
    codec = dataset.manifest.codec
    if not codec.is_read_by_tfds:
        glob = shards_glob(dataset.manifest.name, split, codec, dataset.manifest.file_template)
        return [f"  {line}" for line in codec.reading_lines(f"{dataset.directory}/{glob}")]
    supervised = ", as_supervised=True" if supervised_of(dataset.manifest) else ""
    return [
        "  import tensorflow_datasets as tfds",
        f"  builder = tfds.builder_from_directory({dataset.directory!r})",
        f"  dataset = builder.as_dataset(split={split!r}{supervised})",
    ]
