"""Jobs on Google's Dataflow: what its service needs, asked before anything starts; and jobs that are written as a
template, which the service runs after the launcher has ended."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions, StandardOptions

from shardmill.errors import UserError
from shardmill.installation.extras import install_hint
from shardmill.pipelines.config.job import JobConfig
from shardmill.pipelines.running.lost_streams import log_level
from shardmill.pipelines.running.reachable import check_google_credentials
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.zip_archive import archive_of

_RUNNERS = frozenset({"DataflowRunner", "apache_beam.runners.dataflow.DataflowRunner"})
_REFUSALS = (400, 401, 403, 404, 409)  # statuses; of others, such as 429 and 503, the next try may be well
_METHODS = ("GET ", "POST ", "PUT ")  # with which the message of a REST client begins, and the URL
_NEVER = logging.CRITICAL + 1  # Beam logs what the service refuses at this, for us to say it once


def is_dataflow(options: PipelineOptions) -> bool:
    """Whether Dataflow runs the job."""
    return options.view_as(StandardOptions).runner in _RUNNERS


def template_of(options: PipelineOptions) -> str | None:
    """Where the job is written instead of submitted: what a Flex Template's launch asks for. None where it is run."""
    if not is_dataflow(options):
        return None
    location: str | None = options.view_as(GoogleCloudOptions).template_location
    return location or None


def refuse_template(options: PipelineOptions, why: str) -> None:
    """Refuse to write a template where the job's end is needed; `why` says so.

    Raises:
      UserError: --template_location was given.
    """
    if (template := template_of(options)) is not None:
        raise UserError(
            f"--template_location {template}: {why}, and a template has none; the commands that convert write them"
        )


def check_installed(options: PipelineOptions) -> None:
    """Check that Dataflow's client is installed, where it is needed.

    Raises:
      UserError: it is not.
    """
    if is_dataflow(options) and find_spec("apitools") is None:
        raise UserError(f"--runner DataflowRunner needs Google's clients; {install_hint('gcp')}")


def check_submission(options: PipelineOptions) -> None:
    """Check that a job can be submitted to Dataflow, if it is to be: its client, a project, a region, somewhere to
    stage it to, credentials. Beam would make a bucket where it is given none.

    Raises:
      UserError: not so.
    """
    if not is_dataflow(options):
        return
    check_installed(options)
    google = options.view_as(GoogleCloudOptions)
    if not google.project:
        raise UserError("--runner DataflowRunner: no --project; expected the id of the project that the job runs in")
    if not google.region:
        google.region = _default_region()
    if not google.region:
        raise UserError("--runner DataflowRunner: no --region; expected one such as --region europe-west1")
    if not (google.temp_location or google.staging_location):
        raise UserError(
            "--runner DataflowRunner: no --temp_location; expected a folder of a bucket that the job may write to, such"
            " as gs://bucket/tmp"
        )
    check_google_credentials(options)


def check_paths(config: JobConfig, options: PipelineOptions) -> None:
    """Check that Dataflow's workers, which are other machines, can reach input and output.

    Raises:
      UserError: one is a path of this machine.
    """
    if not is_dataflow(options):
        return
    for flag, path in local_paths(config):
        raise UserError(
            f"{flag} {path} is a path of this machine, which Dataflow's workers cannot reach; expected a URL such as"
            " gs://bucket/folder"
        )


def local_paths(config: JobConfig) -> Iterator[tuple[str, str]]:
    """The flags that name what workers read and write, and their paths, of those that are no URLs."""
    manifests = [("--manifest", path) for _, path in getattr(config, "manifest", ())]
    masks = ("--masks", getattr(config, "masks", None))
    inputs = [("--input", path) for path in config.inputs]
    for flag, path in (*inputs, *manifests, masks, ("--output", config.output)):
        if path is not None and storage.is_local(archive_of(path)):
            yield flag, archive_of(path)


def _default_region() -> str | None:
    from apache_beam.runners.dataflow.dataflow_runner import DataflowRunner

    region: str | None = DataflowRunner().get_default_gcp_region()
    return region


def job_said(result: Any, options: PipelineOptions) -> str | None:
    """What to say of a job that was submitted: its id, and where people look at it. None of one of another runner, or
    that was written as a template."""
    if not is_dataflow(options) or not getattr(result, "has_job", False):
        return None
    google = options.view_as(GoogleCloudOptions)
    page = f"https://console.cloud.google.com/dataflow/jobs/{google.region}/{result.job_id()}?project={google.project}"
    return f"submitted to Dataflow as {result.job_id()}: {page}"


def refusal(error: BaseException, options: PipelineOptions) -> UserError | None:
    """What to say where Dataflow did not take the job, or does not want to be asked about it; None of another error,
    and where another try may mend it."""
    code, message = getattr(error, "code", None), getattr(error, "message", None)
    if not is_dataflow(options) or code not in _REFUSALS or not isinstance(message, str):
        return None
    google = options.view_as(GoogleCloudOptions)
    said = message.partition(": ")[2] if message.startswith(_METHODS) else message
    return UserError(
        f"Dataflow refused the job in --project {google.project} --region {google.region} with status {int(code)}:"
        f" {' '.join(said.split())}"
    )


@contextmanager
def quiet_client() -> Iterator[None]:
    """Beam's client of Dataflow without its own words for what ends the job, which are said once, by us."""
    with log_level("apache_beam.runners.dataflow", _NEVER):
        yield
