"""Follow one recipe: decide, build, notify a webhook of failures, and delete expired versions."""

import json
import queue
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from http.client import HTTPException
from typing import TYPE_CHECKING, Any

from shardmill.addons.nightly.planning import (
    Say,
    Unchanged,
    apply_on_published,
    begin_build,
    find_end_of_loser,
    make_plan,
)
from shardmill.addons.nightly.recipe import RebuildOptions, Recipe
from shardmill.addons.nightly.retention import Problem, retain_by_recipe
from shardmill.errors import CorruptDataError, JobError, LockedError, OutrunError, UserError, handle_sigterm
from shardmill.metadata import file_names
from shardmill.metadata.versions import BuildRecord
from shardmill.pipelines.jobs import outcome
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import limit_timeouts, os_error_text

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions


@handle_sigterm()
def rebuild(
    recipe: Recipe, request: RebuildOptions, options: "Callable[[], PipelineOptions]", say: Say, warn: Say
) -> outcome.Built:
    """Follow a recipe to its end and write the build's record; errors are returned in the result.

    Expired versions are deleted before a build, and at the end, unless another job builds.

    Raises:
        Interrupted: by Ctrl-C or SIGTERM.
    """
    built = _rebuild(recipe, request, options, say, warn)
    is_locked = isinstance(built.error, LockedError) and not isinstance(built.error, OutrunError)
    if is_locked or isinstance(built.error, UserError):  # which may be a mistake in the output
        return built
    if built.error is not None and isinstance(built.error.__cause__, OSError) and not storage.is_local(recipe.output):
        return built  # a store failed, and would fail at that, too; a full disk gets room
    try:
        with nullcontext() if built.error is None else limit_timeouts():
            for sentence in retain_by_recipe(recipe, [built.record.version, built.record.baseline]):
                (warn if isinstance(sentence, Problem) else say)(sentence)
    except KeyboardInterrupt as cause:
        parent = storage.join(recipe.output, recipe.name)
        raise outcome.record_interruption(parent, built.record, cause, record_first_failure=True) from cause
    return built


def _rebuild(
    recipe: Recipe, request: RebuildOptions, options: "Callable[[], PipelineOptions]", say: Say, warn: Say
) -> outcome.Built:
    """Decide and build.

    Beam's options are made only if there is anything to do: importing them takes longer than deciding.
    """
    start_s = time.monotonic()
    record = outcome.begin_record(recipe.name, "")
    try:
        recipe.kind.check_installed()
        record = begin_build(recipe, request)
        plan = make_plan(recipe, record, request, warn)
        record = plan.record
        unchanged: outcome.Built | None = None
        if isinstance(plan.decision, Unchanged):
            unchanged = _unchanged(record, plan.decision)
            directory = storage.join(plan.config.parent, plan.decision.version)
            # Unless its publication was killed at its end: LATEST may not name it
            if not storage.exists(storage.join(directory, file_names.PUBLISHING)):
                latest = plan.decision.latest or plan.decision.version
                outcome.write_page_of(storage.join(plan.config.parent, latest), only_if_missing=True)
                outcome.delete_stale_folders()
                return unchanged
        from shardmill.pipelines.jobs.outcome import complete_interrupted

        if completed := complete_interrupted(plan.config.parent):
            for sentence in completed:
                warn(sentence)
            return _rebuild(recipe, request, options, say, warn)  # the published version is another one now
        if unchanged is not None:  # a job that lives is at it
            return unchanged
        from shardmill.addons.nightly.build import run_build

        plan, changed_request = apply_on_published(recipe, plan, request)
        record = plan.record
        say(str(plan.decision))
        try:
            built = run_build(recipe, plan, changed_request, options(), say)
        except (UserError, CorruptDataError):  # of a version that is kept
            if (same := find_end_of_loser(recipe, plan, request)) is None:
                raise
            return _unchanged(record, same)
        lost = isinstance(built.error, (UserError, LockedError, CorruptDataError))
        if lost and not isinstance(built.error, OutrunError) and (same := find_end_of_loser(recipe, plan, request)):
            return _unchanged(record, same)
        if isinstance(built.error, UserError):  # of which no job writes a record
            return _failed_build(recipe, built.record, built.error)
        return built
    except outcome.Interrupted:
        raise
    except KeyboardInterrupt as cause:  # as the input was looked at, or after all was done
        parent = storage.join(recipe.output, recipe.name)
        record = replace(record, seconds=time.monotonic() - start_s)
        raise outcome.record_interruption(parent, record, cause, record_first_failure=True) from cause
    except Exception as error:
        failure = failure_of(recipe, error)
    return _failed_build(recipe, replace(record, seconds=time.monotonic() - start_s), failure)


def failure_of(recipe: Recipe, error: Exception) -> outcome.Failure:
    """Return the error that a night reports: a defect in the night of one recipe must not stop the others."""
    if isinstance(error, (UserError, JobError, CorruptDataError)):
        return recipe.located(error) if isinstance(error, UserError) else error
    if isinstance(error, NotADirectoryError):
        return recipe.located(UserError(f"--output: {recipe.output} is not a folder; give another --output"))
    unexpected = f"{type(error).__name__}: {error}; nobody expected that: --debug shows where it happened"
    failure = JobError(f"a store failed: {os_error_text(error)}" if isinstance(error, OSError) else unexpected)
    failure.__cause__ = error
    return failure


def _unchanged(record: BuildRecord, decision: Unchanged) -> outcome.Built:
    version = decision.latest or decision.version
    return outcome.Built(replace(record, version=version, status="unchanged", reason=str(decision)))


def _failed_build(recipe: Recipe, record: BuildRecord, error: outcome.Failure) -> outcome.Built:
    located = recipe.located(error) if isinstance(error, UserError) else error
    ended = outcome.failed_record(record, located)
    if ended.version and not isinstance(located, LockedError):
        # Of a mistake nothing is written where there is nothing: the output itself may be the mistake
        outcome.write_unpublished(storage.join(recipe.output, recipe.name), ended, not isinstance(located, UserError))
    return outcome.Built(ended, None, located)


WEBHOOK_TIMEOUT_S = 10.0  # that all of it may take


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A handler that refuses redirects: a redirected POST arrives as a GET, without the record."""

    def redirect_request(self, *_: Any) -> None:
        """Return None, so that the redirect itself is the response."""


def notify(url: str, record: BuildRecord, seconds: float = WEBHOOK_TIMEOUT_S) -> str | None:
    """Post a build's record to a webhook; return a message if that failed, else None.

    The body is the record as a JSON object, with a `text` for Slack and similar services. The URL may be a secret, so
    no message contains it.
    """
    text = "; ".join([f"{record.name} {record.version}: {record.status}: {record.reason}", *record.notices])
    body = json.dumps({**json.loads(record.without_page_checks.to_json()), "text": text}).encode()
    answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    # Looking up a name has no time limit, nor an answer that comes byte by byte: neither holds up the night's end
    threading.Thread(target=lambda: answers.put(_post(url, body, seconds)), daemon=True).start()
    try:
        failed = answers.get(timeout=seconds)
    except queue.Empty:
        failed = f"has not answered in {seconds:g} s"
    return None if failed is None else f"on_failure: the webhook {failed}; nobody may have been notified"


def _post(url: str, body: bytes, seconds: float) -> str | None:
    """Post `body`; return the reason why the webhook did not accept it, or None if it did."""
    try:
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method="POST")
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=seconds) as answer:
            answer.read(1)
    except urllib.error.HTTPError as error:
        moved = ": it has moved, give its new address" if 300 <= error.code < 400 else ""
        return f"answered {error.code} {error.reason}{moved}"
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        if isinstance(reason, TimeoutError):
            return f"has not answered in {seconds:g} s"
        message = getattr(reason, "strerror", None) or str(reason)
        return f"could not be reached: {message.replace(url, '…')}"
    return None
