"""Decide if a recipe needs a build, of which version, and what it keeps of an earlier one; imports no Beam."""

import errno
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa
from google.protobuf import text_format

from shardmill.addons import registry
from shardmill.addons.nightly.inputs import FILES, QUERY, Inputs, check_freshness, find_inputs
from shardmill.addons.nightly.recipe import AUTO, KEEP, NEXT, OVERWRITE, FreshnessOptions, RebuildOptions, Recipe
from shardmill.data.features import Feature
from shardmill.errors import CorruptDataError, LockedError, OutdatedError, UserError, describe_damage
from shardmill.metadata import file_names
from shardmill.metadata.versions import BuildRecord, resolve_version, version_numbers
from shardmill.pipelines.config.job import JobConfig
from shardmill.pipelines.config.record_options import GivenSchema
from shardmill.pipelines.config.records import RowsConfig
from shardmill.pipelines.jobs.outcome import begin_record, read_success
from shardmill.quality.limits import Constraints
from shardmill.reading.dataset import Dataset, labels_of, open_dataset
from shardmill.text import plural, shorten
from shardmill.transforms.options.image_options import Labels
from shardmill.transforms.options.job_options import CheckOptions
from shardmill.transforms.publishing import catalog
from shardmill.transforms.publishing import catalog as latest_file
from shardmill.transforms.publishing.build_records import find_newest_built, inputs_path
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import StoredFile, error_text
from shardmill.transforms.stores.storage import run_concurrently
from shardmill.transforms.stores.streams import UNREADABLE

_REJECTS = f"{file_names.REJECTS_DIR}/{file_names.REJECTS_FILE}"
# The stamps of files that do not exist, on a disk and in a store
_NOT_THERE = {f"{UNREADABLE}{text}" for text in (os.strerror(errno.ENOENT), error_text(FileNotFoundError()))}
_FORMAT_VERSION = 1  # raised when what was written before would be misread


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The decision to build nothing, because a version was made from the same input."""

    version: str  # made from the same input
    files: int  # number of input files
    latest: str  # the version that LATEST names
    requested: str = ""  # the requested version; "" for none

    def __str__(self) -> str:
        message = f"unchanged since {self.version}: {plural(self.files, 'file')}"
        if self.latest != self.version:
            message += f"; LATEST names {self.latest} and stays, --force builds all the same"
        if self.requested not in ("", self.version):
            message += f"; {self.requested} would be the same and is not built, --force builds it"
        return message


@dataclass(frozen=True, slots=True)
class Changed:
    """The decision to build a version, with the reason."""

    reason: str  # what differs, such as `3 files new, 1 changed, 0 gone` or `option --resize`
    published: str = ""  # what differs from the version to be built, if that is published

    def __str__(self) -> str:
        return self.reason


def decide(config: JobConfig, inputs: Inputs, on_published: str = KEEP) -> Unchanged | Changed:
    """Decide if a complete published version was already made from `inputs`.

    Compared versions: the one that LATEST names; the one to be built, which a backfill may have made; newer ones than
    LATEST's; and with `on_published: next` those that took the place of the one to be built. A version newer than
    LATEST's was rolled back from, and building the same again would be no better.
    """
    latest = latest_file.read_latest(config.parent)
    published = [state.version for state in catalog.list_published(config.parent)]
    if latest not in published:  # readers find nothing, so there is something to do
        named = f"LATEST names {shorten(latest)!r}, which is not published" if latest else "there is no LATEST"
        return Changed(named if latest or published else "there is no version yet")
    reasons: dict[str, str] = {}
    newer = [version for version in published if version_numbers(version) > version_numbers(latest)]
    own = [version for version in published if version == config.version]
    if on_published == NEXT:
        own += [version for version in published if version.startswith(_patches_of(config.version))]
    for version in dict.fromkeys([latest, *own, *newer]):
        reasons[version] = _compare_to_version(config.parent, version, inputs)
        if not reasons[version]:
            return Unchanged(version, inputs.file_count, latest)
    return Changed(reasons[latest], reasons.get(config.version, ""))


def _compare_to_version(parent: str, version: str, inputs: Inputs) -> str:
    path = inputs_path(parent, version)
    try:
        before = decode_inputs(storage.read_bytes(path), path)
    except FileNotFoundError:
        return f"what {version} was made from was not recorded"
    except CorruptDataError as error:
        return str(error)
    directory = storage.join(parent, version)
    return describe_difference(before, inputs) or catalog.find_damage(directory) or _describe_unread(directory, before)


# The ends of reasons to reject a file that could not be opened as its turn came
_UNREAD = tuple(f'cannot be read: {os.strerror(code)}"'.encode() for code in (errno.EACCES, errno.EPERM, errno.ENOENT))


def _describe_unread(directory: str, before: Inputs) -> str:
    """Describe the files that could be read as a version's build began, but not as their turn came; "" for none."""
    unread: set[bytes] = set()
    with suppress(FileNotFoundError), storage.open_read(storage.join(directory, _REJECTS)) as file:
        for line in file:
            unread.update([line.partition(b'", ')[0]] if any(end in line for end in _UNREAD) else [])
    new = len(unread) - sum(stamp.startswith(UNREADABLE) for stamp in before.files["stamp"].to_pylist())
    return f"{plural(new, 'file')} could not be read for {directory.rpartition('/')[2]}" if new > 0 else ""


def describe_difference(before: Inputs, now: Inputs) -> str:
    """Describe what differs in `now`; "" for no difference."""
    differences = list(_compare_code(before.code, now.code))
    if before.code_version != now.code_version and not differences:
        differences.append("an option")
    if QUERY in now.files["name"].to_pylist()[:1]:
        differences.append("a query is read in every build")
    elif before.data_version != now.data_version:
        differences.append(_compare_files(before.files, now.files))
    return "; ".join(differences)


def _compare_code(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    names = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    flags = [name for name in names if name.startswith("--")]
    if flags:
        yield f"option{'' if len(flags) == 1 else 's'} {', '.join(flags)}"
    for name in names:
        if name not in flags:
            values = (json.loads(code.get(name, "null")) for code in (before, now))
            yield f"{name} {' -> '.join('none' if value is None else str(value) for value in values)}"


def _compare_files(before: pa.Table, now: pa.Table) -> str:
    one, other = _index_by_name(before), _index_by_name(now)
    counts = Counter("new" if name not in one else "changed" for name, of in other.items() if one.get(name) != of)
    gone = len(one.keys() - other.keys())
    return f"{plural(counts['new'], 'file')} new, {counts['changed']:,} changed, {gone:,} gone"


def _index_by_name(files: pa.Table) -> dict[str, tuple[int, str]]:
    """Return size and stamp of the files that exist; a manifest or annotations may list others."""
    rows = zip(*(column.to_pylist() for column in files.columns), strict=True)
    return {name: (size, stamp) for name, size, stamp in rows if stamp not in _NOT_THERE}


def encode_inputs(inputs: Inputs) -> bytes:
    """Encode inputs as a compressed Arrow IPC file."""
    metadata = {"format": _FORMAT_VERSION, "code": dict(inputs.code), "newest": inputs.newest}
    table = inputs.files.replace_schema_metadata({"shardmill": json.dumps(metadata)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def decode_inputs(content: bytes, path: str) -> Inputs:
    """Decode the file at `path` that holds encoded inputs; raises CorruptDataError."""
    try:
        table = pa.ipc.open_file(pa.BufferReader(content)).read_all()
        metadata = json.loads(table.schema.metadata[b"shardmill"])
        if metadata["format"] > _FORMAT_VERSION:
            raise CorruptDataError(f"{path} is of a newer format than this shardmill reads; upgrade shardmill")
        code = {str(name): str(value) for name, value in metadata["code"].items()}
        return Inputs(table.cast(FILES), code, metadata["newest"])
    except CorruptDataError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptDataError(f"{path} is not the list of a version's inputs: {describe_damage(error)}") from None


# Of a version's options those by which its schema is not that of its input
_DERIVED = {"materialize": "transformed examples (materialize)"}


@dataclass(frozen=True, slots=True)
class KeptSettings:
    """The classes, columns and constraints that a build keeps from an earlier version."""

    config_changes: Mapping[str, Any] = field(default_factory=dict)  # of the job's configuration, by field
    messages: tuple[str, ...] = ()  # messages about what is kept
    labels_version: str = ""  # the version whose classes are kept; "" for none
    constraints: Constraints | None = None  # of its schema, unless the recipe has its own; None for none

    def checks(self, recipe: Recipe) -> CheckOptions:
        """Return the checks of a build of `recipe`, with the kept constraints."""
        return recipe.checks if recipe.checks.schema is not None else replace(recipe.checks, schema=self.constraints)

    def config(self, recipe: Recipe, version: str, **changes: Any) -> JobConfig:
        """Make the configuration that builds `version` with the kept settings; raises as Recipe.config."""
        return replace(recipe.config(version, **changes, **self.config_changes), source_version=self.labels_version)


def find_kept_settings(recipe: Recipe, parent: str) -> KeptSettings:
    """Find what a build of `recipe` keeps from the version in `parent` that `like`, or else LATEST, names.

    Raises UserError if there is no such version, or the recipe contradicts it, and CorruptDataError if it is damaged.
    """
    labels, types, like = recipe.keeps_labels, recipe.keeps_schema, recipe.build.like
    if not (labels or types):
        return KeptSettings()
    _check_kept(recipe, labels, types)
    messages = []
    if like in (None, file_names.LATEST):
        like, warning = catalog.find_previous_version(parent)
        if not like:
            return KeptSettings(
                messages=("there is no version yet whose labels or schema could be kept: those of the input are taken",)
            )
        messages += [warning] if warning else []
    dataset = open_dataset(parent, storage.StorageFiles(), like)
    changes: dict[str, Any] = {}
    flags = dataset.manifest.configuration
    # If the recipe derives the same features, the version's schema describes the input
    sources = _DERIVED | {
        name: words for options in registry.options_for("row") for name, words in options.derived.items()
    }
    same = {flag for flag in sources if flag != "materialize" and recipe.options.get(flag) is not None}
    derived = next((what for flag, what in sources.items() if flags.get(flag) and flag not in same), "")
    version = dataset.manifest.version
    if types and _has_option(recipe, "schema") and derived:
        if recipe.build.schema == "keep":
            raise UserError(
                f"schema: keep: the schema of {version} is that of {derived}, not of the input; name a schema.pbtxt"
            )
        messages.append(f"the types of columns are those of the input: {version} has {derived.partition(' (')[0]}")
    elif types and _has_option(recipe, "schema"):
        changes["schema"] = schema = _make_kept_schema(dataset, labels)
        messages.append(f"the types of {plural(len(schema.features), 'column')} are those of {version}")
    if labels:
        found = labels_of(dataset.manifest)
        several = {label.original or label.name: label.class_names for label in found if label.class_names}
        names = found[0].class_names if len(found) == 1 else several or ()
        messages.append(_labels_message(names, version, recipe.options.get("on_new_label", "fail")))
        if names:
            changes["labels"] = names
    has_own = any(recipe.options.get(name) is not None for name in ("transform_graph", "module_file"))
    keeps_graph = recipe.build.like is not None and not has_own
    if keeps_graph and "transform" in flags and _has_option(recipe, "transform_graph"):
        changes["transform_graph"] = dataset.directory
        messages.append(f"the constants of transformed features are those of {version}")
    requests = changes["schema"].constraints if "schema" in changes else ""
    constraints = Constraints(requests) if requests else None
    return KeptSettings(changes, tuple(messages), version if "labels" in changes else "", constraints)


def kept_digest_entries(recipe: Recipe, parent: str) -> dict[str, str]:
    """Return the classes and columns kept from an earlier version, as entries of a build's digest.

    A tag enters as the version that it names, since it may be moved. LATEST enters as a name, since it moves with each
    build.
    """
    entries = {name: "keep" for name in ("labels", "schema") if getattr(recipe, f"keeps_{name}")}
    like = recipe.build.like
    if like not in (None, file_names.LATEST):
        like, _ = resolve_version(storage.StorageFiles(), parent, like)
    return entries if like is None else {**entries, "like": like}


def _check_kept(recipe: Recipe, labels: bool, schema: bool) -> None:
    for wanted, key, flag in ((labels, "labels", "labels_file"), (schema, "schema", "schema")):
        given = "like" if recipe.build.like is not None else key
        if wanted and recipe.options.get(key) is not None:
            mistake = f"{given}: a version before says it, and so does --{flag}; leave one of them out"
            raise recipe.located(UserError(mistake))
        if wanted and given == key and not _has_option(recipe, key):
            mistake = f"{key}: keep has no meaning for {recipe.kind.name}, which has no --{flag}"
            raise recipe.located(UserError(mistake))


def _has_option(recipe: Recipe, name: str) -> bool:
    return any(option.field == name for option in recipe.kind.options)


def _labels_message(labels: Labels, version: str, on_new_label: str) -> str:
    if not labels:
        return f"{version} has no names of classes that could be kept"
    names = labels if isinstance(labels, tuple) else tuple(name for of_one in labels.values() for name in of_one)
    new = {"fail": "a new one fails", "append": "a new one gets the next id", "reject": "a new one is rejected"}
    return f"the ids of {plural(len(names), 'class', 'classes')} are those of {version}; {new[on_new_label]}"


def _make_kept_schema(dataset: Dataset, labels: bool) -> GivenSchema:
    """Return the version's schema as --schema reads it; class ids become strings as in the input, if none is kept."""
    path = storage.join(dataset.directory, file_names.SCHEMA)
    try:
        given = GivenSchema.from_pbtxt(dataset.metadata(file_names.SCHEMA).decode())
    except (ValueError, text_format.ParseError, FileNotFoundError) as error:
        raise CorruptDataError(f"{path} cannot be kept: {error}") from None
    named = {feature.name for feature in dataset.manifest.features if feature.class_names}
    given = replace(given, kept_version=dataset.manifest.version)
    if labels:
        return given
    features = tuple(
        Feature(feature.name, "bytes", "tensor" if feature.shape else "text", feature.shape, feature.required)
        if feature.name in named
        else feature
        for feature in given.features
    )
    return replace(given, features=features)


FIRST = "1.0.0"


def version_to_build(requested: str, parent: str) -> str:
    """Return `requested`, or for `auto` the patch after the newest version that ever was: a number is used once."""
    return _find_next_number(parent) if requested == AUTO else requested


def _find_next_number(parent: str, prefix: str = "") -> str:
    """Return the patch after the newest version that ever was, of those that begin with `prefix`.

    Versions that a job builds or publishes now do not count: two builders want the same version, so the second one
    gives way.
    """
    ways = (partial(find, parent, prefix) for find in (catalog.find_newest_version, find_newest_built))
    found = max(filter(None, run_concurrently(parent, *ways)), key=version_numbers, default="")
    if not found or storage.exists(storage.join(parent, found, file_names.PUBLISHING)):
        return found or FIRST
    return next_patch(found)


def _patches_of(version: str) -> str:
    return f"{version.rpartition('.')[0]}."


def next_patch(version: str) -> str:
    """Return the next patch version: `1.0.4` after `1.0.3`."""
    assert file_names.is_version(version)
    major, minor, patch = version_numbers(version)
    return f"{major}.{minor}.{patch + 1}"


Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """The plan of a recipe's build."""

    config: JobConfig  # of the job, without a record
    inputs: Inputs
    decision: Changed | Unchanged  # to build or not, and why
    record: BuildRecord  # of the build, as far as it is known
    success: StoredFile | None  # of the version to build, before the decision; None if it was not published
    next_number: str = ""  # with `on_published: next`, the version to build instead of a published one


def begin_build(recipe: Recipe, request: RebuildOptions) -> BuildRecord:
    """Return the record of a build that begins now, with the version to build."""
    version = version_to_build(request.version or recipe.build.version, storage.join(recipe.output, recipe.name))
    catalog.check_not_ahead(version, request.date, request.allow_future)
    return begin_record(recipe.name, version)


def make_plan(
    recipe: Recipe, record: BuildRecord, request: RebuildOptions, warn: Say, now: float | None = None
) -> BuildPlan:
    """Compare the input with the published versions at `now`, in seconds since 1970; nothing is written.

    Raises UserError for a mistake, and ChecksError if the newest input is too old.
    """
    config = recipe.config(record.version, **command_line_changes(recipe, request))
    if recipe.checks.baseline != file_names.LATEST:  # a mistake even where there is nothing to compare
        resolve_version(storage.StorageFiles(), config.parent, recipe.checks.baseline)
    if isinstance(config, RowsConfig) and recipe.freshness != FreshnessOptions():
        raise recipe.located(UserError("freshness: the rows of a query have no time; leave the section out"))
    inputs = find_inputs(config, recipe.build.fingerprint, kept_digest_entries(recipe, config.parent))
    if message := check_freshness(inputs.newest, recipe.freshness, time.time() if now is None else now):
        warn(message)
    if inputs.missing and inputs.file_count:  # of no file at all the job tells
        parts = "1 part" if len(inputs.missing) == 1 else f"{len(inputs.missing)} parts"
        warn(f"no file is there for {parts} of the input, such as {inputs.missing[-1]}")
    # A number of `auto` was never published: if it is now, another job was faster
    success = None if request.version is None and recipe.build.version == AUTO else read_success(config)
    if success is not None and storage.exists(storage.join(config.directory, file_names.PUBLISHING)):
        success = None  # published by a job that has not ended
    counts_up = success is not None and recipe.build.on_published == NEXT
    next_number = _find_next_number(config.parent, _patches_of(config.version)) if counts_up else ""
    decision = decide(config, inputs, recipe.build.on_published)
    if isinstance(decision, Unchanged):
        decision = replace(decision, requested=request.version or "")
    if request.force and isinstance(decision, Unchanged):
        decision = Changed(f"--force, although {decision}")
    record = replace(record, reason=str(decision), code_version=inputs.code_version, data_version=inputs.data_version)
    return BuildPlan(config, inputs, decision, record, success, next_number)


def apply_on_published(recipe: Recipe, plan: BuildPlan, request: RebuildOptions) -> tuple[BuildPlan, RebuildOptions]:
    """Return the plan and the request, changed as `on_published` says if the version to build is published.

    Raises OutdatedError if the version is kept. If it was asked for by --version or --force, the job refuses it.
    """
    if plan.success is None or request.overwrite or isinstance(plan.decision, Unchanged):
        return plan, request
    if recipe.build.on_published == OVERWRITE:
        return plan, replace(request, overwrite=True)
    if plan.next_number:
        config = recipe.config(plan.next_number, **command_line_changes(recipe, request))
        return replace(plan, config=config, record=replace(plan.record, version=config.version), success=None), request
    if request.version is not None or request.force:
        return plan, request
    raise OutdatedError(
        f"{plan.config.directory} is published and is kept, although a build would now differ:"
        f" {plan.decision.published or plan.decision}; `shardmill rebuild --overwrite`, or `on_published: overwrite` in"
        " the recipe, replaces it"
    )


def find_end_of_loser(recipe: Recipe, plan: BuildPlan, request: RebuildOptions) -> Unchanged | None:
    """Return the decision of a build that failed because another job has published its version since it was planned.

    Return None if nothing was published since, or that is under way. Raises LockedError if it is of another input.
    """
    publishing = storage.join(plan.config.directory, file_names.PUBLISHING)
    if read_success(plan.config) == plan.success or storage.exists(publishing):
        return None
    decision = make_plan(recipe, plan.record, request, lambda _: None).decision
    if isinstance(decision, Unchanged):
        return decision
    raise LockedError(
        f"{plan.config.directory} was published meanwhile by another job, and a build would now differ: {decision};"
        " nothing was written; the next rebuild compares with that version"
    )


def command_line_changes(recipe: Recipe, request: RebuildOptions) -> dict[str, object]:
    """Return the command-line options that apply to the recipe's command, by field."""
    names = ("set_latest", "overwrite", "allow_future")
    return {name: True for name in names if getattr(request, name) and _has_option(recipe, name)}
