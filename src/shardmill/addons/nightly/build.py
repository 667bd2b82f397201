"""Run a planned build with Beam, and reuse records of the previous version."""

from dataclasses import replace
from functools import partial
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions

from shardmill.addons.nightly.planning import BuildPlan, Say, command_line_changes, encode_inputs, find_kept_settings
from shardmill.addons.nightly.recipe import RebuildOptions, Recipe
from shardmill.addons.nightly.retention import Problem, retain_by_recipe
from shardmill.pipelines.config.job import JobConfig
from shardmill.pipelines.jobs.job import Job, check_job, make_tuned_job, run_conversion, run_recorded
from shardmill.pipelines.jobs.outcome import Built, Launched, Published
from shardmill.pipelines.jobs.runner import refuse_template
from shardmill.pipelines.reports.summary import reuse_lines
from shardmill.transforms.options.job_options import LATEST, NO, RECORD, Acceptance
from shardmill.transforms.publishing.lease import user_at_host


def reuse_changes(recipe: Recipe, config: JobConfig, full: bool) -> dict[str, str]:
    """Return the reuse option for a build of `recipe`, by field; with `full` all files are read, for the next build.

    By default it takes unchanged files from LATEST, unless the recipe says otherwise. With `fingerprint: content` it
    takes nothing, since names, sizes and times then prove nothing.
    """
    if config.is_reuse_requested is None:
        return {}
    if full:
        return {"reuse": RECORD}
    return {} if "reuse" in recipe.options else {"reuse": NO if _is_reading_all(recipe) else LATEST}


def _is_reading_all(recipe: Recipe) -> bool:
    return recipe.build.fingerprint == "content"


def run_build(recipe: Recipe, plan: BuildPlan, request: RebuildOptions, options: PipelineOptions, say: Say) -> Built:
    """Run a planned build; `say` takes progress messages.

    Raises UserError or CorruptDataError for a mistake, with nothing written, and Interrupted.
    """
    refuse_template(options, "a rebuild compares, reports and deletes old versions at its job's end")
    for sentence in retain_by_recipe(recipe, [plan.config.version]):  # which may be what makes room for the build
        if not isinstance(sentence, Problem):  # which is tried again, and told, at the end
            say(sentence)
    kept_settings = find_kept_settings(recipe, plan.config.parent)
    for sentence in kept_settings.messages:
        say(sentence)
    changes = {**command_line_changes(recipe, request), **reuse_changes(recipe, plan.config, request.full)}
    checks = kept_settings.checks(recipe)
    if request.accept:
        checks = replace(checks, accepted=Acceptance(request.accept, user_at_host(), "rebuild --accept"))
    config = replace(kept_settings.config(recipe, plan.config.version, **changes), checks=checks)
    make_job = partial(make_tuned_job, recipe.kind.make_job, options) if request.tunes_memory else recipe.kind.make_job
    run_job = partial(_run_job, inputs=encode_inputs(plan.inputs), planned_success=plan.success)
    built = run_recorded(make_job, config, options, plan.record, request.quiet, run_job, record_first_failure=True)
    if built.error is None:
        messages = reuse_lines(config, built.index)
        if config.is_reuse_requested == NO and _is_reading_all(recipe):
            messages = ["all files were read: with fingerprint: content, their names, sizes and times prove nothing"]
        for sentence in messages:
            say(sentence)
    return built


def _run_job(job: Job, config: JobConfig, options: PipelineOptions, quiet: bool, **given: Any) -> Published | Launched:
    check_job(config, options)
    return run_conversion(job, config, options, quiet, **given)
