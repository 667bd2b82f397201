"""What was planned is done: a job is run, its version published, and old ones deleted."""

from dataclasses import replace
from functools import partial

from apache_beam.options.pipeline_options import PipelineOptions

from shardmill.pipelines.config.job import JobConfig
from shardmill.pipelines.graphs.jobs import Job
from shardmill.pipelines.rebuilding.decide import to_bytes
from shardmill.pipelines.rebuilding.keep import keep
from shardmill.pipelines.rebuilding.planning import Asked, Plan, Say, asked_changes
from shardmill.pipelines.rebuilding.retain import retain
from shardmill.pipelines.rebuilding.reuse import reuse_changes, reuse_said
from shardmill.pipelines.recipes.recipe import Recipe
from shardmill.pipelines.running.convert import run
from shardmill.pipelines.running.dataflow import refuse_template
from shardmill.pipelines.running.memory import return_large_buffers, reuse_large_buffers
from shardmill.pipelines.running.outcome import Built
from shardmill.pipelines.running.recorded import run_recorded
from shardmill.pipelines.running.runner import is_local


def build(recipe: Recipe, made: Plan, asked: Asked, options: PipelineOptions, say: Say) -> Built:
    """Do what was planned.

    Args:
      recipe: that was planned.
      made: the plan.
      asked: by the command line.
      options: Beam's.
      say: is told what is done.

    Raises:
      UserError, CorruptDataError: a mistake; nothing was written.
      Interrupted: by Ctrl-C or SIGTERM.
    """
    refuse_template(options, "a rebuild compares, reports and deletes old versions at its job's end")
    kept = keep(recipe, made.config.parent)
    for sentence in kept.said:
        say(sentence)
    changes = {**asked_changes(recipe, asked), **reuse_changes(recipe, made.config, asked.full)}
    config = replace(kept.config(recipe, made.config.version, **changes), checks=kept.checks(recipe))
    job = partial(_job, recipe, is_local(options))
    run_job = partial(run, inputs=to_bytes(made.inputs))
    built = run_recorded(job, config, options, made.record, asked.quiet, run_job, first_too=True)
    if built.error is None:
        for sentence in reuse_said(recipe, config, built.index):
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
