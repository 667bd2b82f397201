"""A recipe followed once: is there anything to do, then build, check, publish, and delete what is old."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from apache_beam.options.pipeline_options import PipelineOptions

from pipelines.config.job import JobConfig
from pipelines.graphs.jobs import Job
from pipelines.rebuilding.decide import Changed, Unchanged, decide, to_bytes
from pipelines.rebuilding.freshness import check_freshness
from pipelines.rebuilding.inputs import Inputs, find_inputs
from pipelines.rebuilding.keep import keep, kept_of
from pipelines.rebuilding.retain import retain
from pipelines.rebuilding.reuse import reuse_changes, reuse_said
from pipelines.rebuilding.versions import version_to_build
from pipelines.recipes.recipe import Recipe
from pipelines.running.convert import run
from pipelines.running.memory import return_large_buffers, reuse_large_buffers
from pipelines.running.recorded import Built, Failure, begin_record, failed_record, run_recorded, write_if_there
from pipelines.running.runner import is_local
from shardmill.build_record import BuildRecord
from shardmill.errors import CorruptDataError, JobError, LockedError, UserError
from transforms.stores import storage

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the command line says of all recipes.

    Attributes:
      version: in place of the recipes'; None for theirs.
      force: build although nothing differs.
      full: take nothing from an older version's shards.
      set_latest: let LATEST name the version although it names a newer one.
      overwrite: replace the version if it is published.
      quiet: show no progress.
    """

    version: str | None = None
    force: bool = False
    full: bool = False
    set_latest: bool = False
    overwrite: bool = False
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done.

    Attributes:
      config: of the job, without a record.
      inputs: that it would read.
      decision: whether there is anything to do, and why.
      record: of the build, as far as it is known.
    """

    config: JobConfig
    inputs: Inputs
    decision: Changed | Unchanged
    record: BuildRecord


def begin(recipe: Recipe, asked: Asked) -> BuildRecord:
    """The record of a build that begins now, of the version that is to be built.

    Raises:
      OSError: a store fails.
    """
    parent = storage.join(recipe.output, recipe.name)
    return begin_record(recipe.name, version_to_build(asked.version or recipe.build.version, parent))


def plan(recipe: Recipe, record: BuildRecord, asked: Asked, warn: Say, now: float | None = None) -> Plan:
    """Look at the input and at the version that stands; nothing is written.

    Args:
      recipe: to follow.
      record: see `begin`.
      asked: by the command line.
      warn: is told what may be wrong.
      now: the time, in seconds since 1970; None for this moment.

    Raises:
      UserError: a mistake.
      ChecksError: the newest input is too old.
      OSError: a store fails.
    """
    config = recipe.config(record.version, **_changes(recipe, asked))
    inputs = find_inputs(config, recipe.build.fingerprint, kept_of(recipe, config.parent))
    if said := check_freshness(inputs.newest, recipe.freshness, time.time() if now is None else now):
        warn(said)
    decision = decide(config, inputs)
    if asked.force and isinstance(decision, Unchanged):
        decision = Changed(f"--force, although {decision}")
    record = replace(record, reason=str(decision), code_version=inputs.code_version, data_version=inputs.data_version)
    return Plan(config, inputs, decision, record)


def _changes(recipe: Recipe, asked: Asked) -> dict[str, object]:
    """What the command line says, by field, of those that the command has."""
    fields = {option.field for option in recipe.kind.options}
    given = {"set_latest": asked.set_latest, "overwrite": asked.overwrite}
    changes: dict[str, object] = {name: True for name, value in given.items() if value and name in fields}
    return changes


def build(recipe: Recipe, made: Plan, asked: Asked, options: PipelineOptions, say: Say, warn: Say) -> Built:
    """Do what was planned; of what is unchanged that is nothing, and nothing is written.

    Args:
      recipe: that was planned.
      made: the plan.
      asked: by the command line.
      options: Beam's.
      say: is told what is done.
      warn: is told what may be wrong.

    Raises:
      UserError, CorruptDataError: a mistake; nothing was written.
      Interrupted: by Ctrl-C or SIGTERM.
    """
    if isinstance(made.decision, Unchanged):
        latest = made.decision.latest or made.decision.version
        return Built(replace(made.record, version=latest, status="unchanged"))
    kept = keep(recipe, made.config.parent)
    for sentence in kept.said:
        say(sentence)
    changes = {**_changes(recipe, asked), **reuse_changes(recipe, made.config, asked.full), **kept.changes}
    config = replace(recipe.config(made.config.version, **changes), checks=recipe.checks)
    job = partial(_job, recipe, is_local(options))
    run_job = partial(run, inputs=to_bytes(made.inputs))
    built = run_recorded(job, config, options, made.record, asked.quiet, run_job)
    if isinstance(built.error, UserError):  # of which no job writes a record
        return _ended(recipe, built.record, built.error)
    if built.error is None:
        for sentence in reuse_said(recipe, config):
            say(sentence)
        stay = {version for version in (recipe.build.baseline, built.record.baseline, config.version) if version}
        for sentence in retain(config.parent, recipe.retain, stay):
            say(sentence)
    return built


def _job(recipe: Recipe, local: bool, config: JobConfig) -> Job:
    job = recipe.kind.make_job(config)
    if local:
        (reuse_large_buffers if job.reuses_buffers else return_large_buffers)()
    return job


def rebuild(recipe: Recipe, asked: Asked, options: PipelineOptions, say: Say, warn: Say) -> Built:
    """Follow a recipe to its end; what ends it is in the result, and the record of the build is written.

    Args:
      recipe: to follow.
      asked: by the command line.
      options: Beam's; see `pipelines.running.convert.run`.
      say: is told what is done, in sentences.
      warn: is told what may be wrong.

    Raises:
      Interrupted: by Ctrl-C or SIGTERM.
    """
    begun = time.monotonic()
    record = begin_record(recipe.name, "")
    try:
        recipe.kind.check_installed()
        record = begin(recipe, asked)
        made = plan(recipe, record, asked, warn)
        record = made.record
        if isinstance(made.decision, Changed):
            say(str(made.decision))
        return build(recipe, made, asked, options, say, warn)
    except (UserError, JobError, CorruptDataError) as error:
        return _ended(recipe, replace(record, seconds=time.monotonic() - begun), error)
    except OSError as error:
        ended = replace(record, seconds=time.monotonic() - begun)
        return _ended(recipe, ended, JobError(f"a store failed: {error}"))


def _ended(recipe: Recipe, record: BuildRecord, error: Failure) -> Built:
    """The result of what ended where no job writes a record; a mistake is told with the recipe's line."""
    told = recipe.located(error) if isinstance(error, UserError) else error
    ended = failed_record(record, told)
    if ended.version and not isinstance(told, LockedError):
        write_if_there(storage.join(recipe.output, recipe.name), ended)
    return Built(ended, None, told)
