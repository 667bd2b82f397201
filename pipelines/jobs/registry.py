"""The registry of commands: a line for each; the module of a command is imported when the command is looked up."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from shardmill.addons.registry import ADD_ONS, CONVERTING, LOOKING, MANAGING, PROGRAM, Entry
from shardmill.installed import importing_beam

if TYPE_CHECKING:
    from shardmill.pipelines.jobs.kind import Kind


_FILES, _RECORDS = f"{__package__}.file_kinds", f"{__package__}.record_kinds"
_IN = "shardmill.pipelines.commands"
COMMANDS: dict[str, dict[str, Entry]] = {  # by the headings of `shardmill --help`
    CONVERTING: {
        "images": Entry("turn a tree of images, or a manifest that lists them, into TFRecord shards", _FILES),
        "arrays": Entry("turn .npy arrays and TIFFs of many bands into TFRecord shards", _FILES),
        "audio": Entry("turn WAV files into TFRecord shards", _FILES),
        "csv": Entry("turn CSV or TSV files into TFRecord shards", _RECORDS),
        "jsonl": Entry("turn JSON lines into TFRecord shards", _RECORDS),
        "parquet": Entry("turn Parquet files into TFRecord shards", _RECORDS),
        "avro": Entry("turn Avro files into TFRecord shards", _RECORDS),
        "webdataset": Entry("turn tar files of WebDataset into TFRecord shards", _RECORDS),
        "reshard": Entry("distribute existing TFRecords to balanced, shuffled shards", _RECORDS),
        "text": Entry("turn text into TFRecord shards, one example for each line, document or file", _RECORDS),
    },
    LOOKING: {
        "verify": Entry("re-read a data set and check every shard", f"{_IN}.verify", ("verify", "Verification")),
        "index": Entry("write the position of each record, for random access", f"{_IN}.index", ("index", "Indexed")),
        "versions": Entry("list the versions of a data set", f"{_IN}.versions", ("versions", "Versions", "VersionRow")),
    },
    MANAGING: {
        "rollback": Entry("point LATEST at an older version", f"{_IN}.versions", ("rollback", "RolledBack")),
        "tag": Entry("name a version, or move or delete its name", f"{_IN}.versions", ("tag", "Tagged")),
        "accept": Entry(
            "publish a version that failed its checks, as it is", f"{_IN}.versions", ("accept", "Accepted")
        ),
    },
    PROGRAM: {
        "completion": Entry("print the script that completes this command line in a shell", "shardmill.pipelines.cli")
    },
}


for _add_on in ADD_ONS:
    for _heading, _entries in _add_on.commands.items():
        _core = COMMANDS[_heading]
        _added = {name: entry._replace(module=_add_on.module(entry.module)) for name, entry in _entries.items()}
        COMMANDS[_heading] = {**_added, **_core} if _add_on.leads else {**_core, **_added}


def entries() -> dict[str, Entry]:
    """Return the lines of all commands, by name."""
    return {name: entry for group in COMMANDS.values() for name, entry in group.items()}


def load(name: str) -> Any:
    """Import and return the record of a command: a `Kind`, or a `Command` that does not convert."""
    with importing_beam(for_local_files=False):  # verify does
        records = import_module(entries()[name].module).COMMANDS
    return next(record for record in records if record.name == name)


class _Kinds(Mapping[str, "Kind"]):
    """The records of the converting commands, each imported when it is looked up."""

    def __getitem__(self, name: str) -> "Kind":
        if name not in COMMANDS[CONVERTING]:
            raise KeyError(name)
        kind: Kind = load(name)
        return kind

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS[CONVERTING])

    def __len__(self) -> int:
        return len(COMMANDS[CONVERTING])


KINDS = _Kinds()
