"""What a recipe asks for: of which version, and whether there is anything to do; nothing here needs Beam."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from shardmill.metadata import naming
from shardmill.pipelines.config.job import JobConfig
from shardmill.pipelines.rebuilding.decide import Changed, Unchanged, decide
from shardmill.pipelines.rebuilding.freshness import check_freshness
from shardmill.pipelines.rebuilding.inputs import Inputs, find_inputs
from shardmill.pipelines.rebuilding.keep import kept_of
from shardmill.pipelines.rebuilding.versions import version_to_build
from shardmill.pipelines.recipes.recipe import Recipe
from shardmill.pipelines.running.outcome import begin_record
from shardmill.transforms.stores import storage
from shardmill.versions.build_record import BuildRecord
from shardmill.versions.tags import find_version

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
    config = recipe.config(record.version, **asked_changes(recipe, asked))
    if recipe.checks.baseline != naming.LATEST:  # a mistake even where there is nothing to compare
        find_version(storage.StorageFiles(), config.parent, recipe.checks.baseline)
    inputs = find_inputs(config, recipe.build.fingerprint, kept_of(recipe, config.parent))
    if said := check_freshness(inputs.newest, recipe.freshness, time.time() if now is None else now):
        warn(said)
    if inputs.missing and inputs.number:  # of no file at all the job tells
        number = len(inputs.missing)
        warn(
            f"no file is there for {number} part{'' if number == 1 else 's'} of the input, such as {inputs.missing[-1]}"
        )
    decision = decide(config, inputs)
    if isinstance(decision, Unchanged):
        decision = replace(decision, asked=asked.version or "")
    if asked.force and isinstance(decision, Unchanged):
        decision = Changed(f"--force, although {decision}")
    record = replace(record, reason=str(decision), code_version=inputs.code_version, data_version=inputs.data_version)
    return Plan(config, inputs, decision, record)


def asked_changes(recipe: Recipe, asked: Asked) -> dict[str, object]:
    """What the command line says, by field, of those that the command has."""
    fields = {option.field for option in recipe.kind.options}
    given = {"set_latest": asked.set_latest, "overwrite": asked.overwrite}
    changes: dict[str, object] = {name: True for name, value in given.items() if value and name in fields}
    return changes
