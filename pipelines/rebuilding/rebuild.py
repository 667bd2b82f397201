"""A recipe followed once: is there anything to do, then build, check, publish, and delete what is old."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from shardmill.errors import CorruptDataError, JobError, LockedError, UserError
from shardmill.metadata import naming
from shardmill.pipelines.rebuilding.decide import Unchanged
from shardmill.pipelines.rebuilding.planning import Asked, Plan, Say, begin, plan
from shardmill.pipelines.recipes.recipe import Recipe
from shardmill.pipelines.running.outcome import (
    Built,
    Failure,
    Interrupted,
    begin_record,
    failed_record,
    interrupted,
    write_unpublished,
)
from shardmill.pipelines.running.signals import terminable
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.error_text import sentence_of
from shardmill.versions.build_record import BuildRecord

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions


def rebuild(recipe: Recipe, asked: Asked, options: "Callable[[], PipelineOptions]", say: Say, warn: Say) -> Built:
    """Follow a recipe to its end; what ends it is in the result, and the record of the build is written.

    Args:
      recipe: to follow.
      asked: by the command line.
      options: gives Beam's, if there is anything to do: they take longer to import than to see that there is not.
      say: is told what is done, in sentences.
      warn: is told what may be wrong.

    Raises:
      Interrupted: by Ctrl-C or SIGTERM.
    """
    with terminable():
        return _rebuild(recipe, asked, options, say, warn)


def _rebuild(recipe: Recipe, asked: Asked, options: "Callable[[], PipelineOptions]", say: Say, warn: Say) -> Built:
    begun = time.monotonic()
    record = begin_record(recipe.name, "")
    try:
        recipe.kind.check_installed()
        record = begin(recipe, asked)
        made = plan(recipe, record, asked, warn)
        record = made.record
        unchanged = _unchanged(made)
        if unchanged is not None and not _is_half_published(made):
            return unchanged
        from shardmill.pipelines.running.taking_up import complete_interrupted

        if completed := complete_interrupted(made.config.parent):
            for sentence in completed:
                warn(sentence)
            return _rebuild(recipe, asked, options, say, warn)  # what stands is another now
        if unchanged is not None:  # a job that lives is at it
            return unchanged
        from shardmill.pipelines.rebuilding.build import build

        say(str(made.decision))
        built = build(recipe, made, asked, options(), say)
        if isinstance(built.error, UserError):  # of which no job writes a record
            return _ended(recipe, built.record, built.error)
        return built
    except Interrupted:
        raise
    except KeyboardInterrupt as cause:  # as the input was looked at, or after all was done
        parent = storage.join(recipe.output, recipe.name)
        record = replace(record, seconds=time.monotonic() - begun)
        raise interrupted(parent, record, cause, first_too=True) from cause
    except (UserError, JobError, CorruptDataError) as error:
        return _ended(recipe, replace(record, seconds=time.monotonic() - begun), error)
    except OSError as error:
        ended = replace(record, seconds=time.monotonic() - begun)
        return _ended(recipe, ended, JobError(f"a store failed: {sentence_of(error)}"))
    except Exception as error:  # a defect in one recipe's night must not take the others theirs
        ended = replace(record, seconds=time.monotonic() - begun)
        unexpected = JobError(f"{type(error).__name__}: {error}; nobody expected that: --debug shows where it happened")
        unexpected.__cause__ = error
        return _ended(recipe, ended, unexpected)


def _unchanged(made: Plan) -> Built | None:
    if not isinstance(made.decision, Unchanged):
        return None
    return Built(replace(made.record, version=made.decision.latest or made.decision.version, status="unchanged"))


def _is_half_published(made: Plan) -> bool:
    """Whether nothing differs from a version whose publication was killed at its end: LATEST may not name it."""
    if not isinstance(made.decision, Unchanged):
        return False
    directory = storage.join(made.config.parent, made.decision.version)
    return storage.exists(storage.join(directory, naming.PUBLISHING))


def _ended(recipe: Recipe, record: BuildRecord, error: Failure) -> Built:
    """The result of what ended where no job writes a record; a mistake is told with the recipe's line."""
    told = recipe.located(error) if isinstance(error, UserError) else error
    ended = failed_record(record, told)
    if ended.version and not isinstance(told, LockedError):
        # Of a mistake nothing is written where there is nothing: the output itself may be the mistake
        write_unpublished(storage.join(recipe.output, recipe.name), ended, not isinstance(told, UserError))
    return Built(ended, None, told)
