"""Is there anything to do? What stands is compared with what a build would read."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from shardmill.errors import CorruptDataError
from shardmill.pipelines.config.job import JobConfig
from shardmill.pipelines.rebuilding.inputs import FILES, Inputs
from shardmill.printable import beginning
from shardmill.transforms.publishing import latest as latest_file
from shardmill.transforms.publishing.catalog import published
from shardmill.transforms.publishing.inputs_file import inputs_path
from shardmill.transforms.publishing.whole import why_not_whole
from shardmill.transforms.stores import storage
from shardmill.versions.published import numbers

_FORMAT = 1  # raised when what was written before would be misread


@dataclass(frozen=True, slots=True)
class Unchanged:
    """There is nothing to do.

    Attributes:
      version: that was made from the same.
      files: of its input.
      latest: what LATEST names.
      asked: the version that was asked for; "" where none was.
    """

    version: str
    files: int
    latest: str
    asked: str = ""

    def __str__(self) -> str:
        said = f"unchanged since {self.version}: {self.files:,} file{'' if self.files == 1 else 's'}"
        if self.latest != self.version:
            said += f"; LATEST names {self.latest} and stays, --force builds all the same"
        if self.asked not in ("", self.version):
            said += f"; {self.asked} would be the same and is not built, --force builds it"
        return said


@dataclass(frozen=True, slots=True)
class Changed:
    """There is something to do; `reason` says what differs: `3 files new, 1 changed, 0 gone` or `option --resize`."""

    reason: str

    def __str__(self) -> str:
        return self.reason


def decide(config: JobConfig, inputs: Inputs) -> Unchanged | Changed:
    """Whether a version that stands, and is whole, was made from `inputs`.

    That is the one that LATEST names; the one to be built, which a backfill may have made; or one that is newer than
    what LATEST names: it was rolled back from, and the same again would be no better.
    """
    latest = latest_file.latest(config.directory)
    standing = [state.version for state in published(config.parent)]
    if latest not in standing:  # readers find nothing, so there is something to do
        named = f"LATEST names {beginning(latest)!r}, which is not published" if latest else "there is no LATEST"
        return Changed(named if latest or standing else "there is no version yet")
    reasons = []
    newer = [version for version in standing if numbers(version) > numbers(latest)]
    for version in dict.fromkeys([latest, *(version for version in [config.version] if version in standing), *newer]):
        reason = _difference(config.parent, version, inputs)
        if not reason:
            return Unchanged(version, inputs.number, latest)
        reasons.append(reason)
    return Changed(reasons[0])


def _difference(parent: str, version: str, inputs: Inputs) -> str:
    """In what `inputs` differ from those of a published version; empty where they do not."""
    path = inputs_path(parent, version)
    try:
        before = from_bytes(storage.read_bytes(path), path)
    except FileNotFoundError:
        return f"what {version} was made from was not recorded"
    except CorruptDataError as error:
        return str(error)
    reason = difference(before, inputs)
    return reason or why_not_whole(storage.join(parent, version))


def difference(before: Inputs, now: Inputs) -> str:
    """What is another in `now`, in words; empty where nothing is."""
    said = [*_code_difference(before.code, now.code)]
    if before.code_version != now.code_version and not said:
        said.append("an option")
    if before.data_version != now.data_version:
        said.append(_files_difference(before.files, now.files))
    return "; ".join(said)


def _code_difference(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    names = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    flags = [name for name in names if name.startswith("--")]
    if flags:
        yield f"option{'' if len(flags) == 1 else 's'} {', '.join(flags)}"
    for name in names:
        if name not in flags:
            one, other = (json.loads(code[name]) if name in code else None for code in (before, now))
            yield f"{name} {_shown(one)} -> {_shown(other)}"


def _shown(value: object) -> str:
    return "none" if value is None else str(value)


def _files_difference(before: pa.Table, now: pa.Table) -> str:
    one, other = _by_name(before), _by_name(now)
    counts = Counter("new" if name not in one else "changed" for name, of in other.items() if one.get(name) != of)
    gone = len(one.keys() - other.keys())
    new = counts["new"]
    return f"{new:,} file{'' if new == 1 else 's'} new, {counts['changed']:,} changed, {gone:,} gone"


def _by_name(files: pa.Table) -> dict[str, tuple[int, str]]:
    names, *columns = (column.to_pylist() for column in files.columns)
    return dict(zip(names, zip(*columns, strict=True), strict=True))


def to_bytes(inputs: Inputs) -> bytes:
    """The content of a file of inputs: Arrow's IPC file format, compressed."""
    told = {"format": _FORMAT, "code": dict(inputs.code), "newest": inputs.newest}
    table = inputs.files.replace_schema_metadata({"shardmill": json.dumps(told)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def from_bytes(content: bytes, path: str) -> Inputs:
    """What `to_bytes` wrote to the file at `path`.

    Raises:
      CorruptDataError: it is not that.
    """
    try:
        table = pa.ipc.open_file(pa.BufferReader(content)).read_all()
        told = json.loads(table.schema.metadata[b"shardmill"])
        if told["format"] > _FORMAT:
            raise CorruptDataError(f"{path} is of a newer format than this shardmill reads; upgrade shardmill")
        code = {str(name): str(value) for name, value in told["code"].items()}
        return Inputs(table.cast(FILES), code, told["newest"])
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, CorruptDataError):
            raise
        raise CorruptDataError(f"{path} is not the list of a version's inputs: {error}") from None
