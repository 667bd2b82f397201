"""Whether what a run elsewhere needs is there, asked before anything starts: Beam would wait, or try again for
minutes."""

import logging

from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions, PortableOptions, StandardOptions

from shardmill.errors import UserError

_SECONDS = 5  # waited for a job server that answers at all
_BEAMS_SECONDS = 300  # its default for --job_server_timeout, for which it waits without a word
_EMBEDDED = "embed"  # Beam's word for a job server in its own process


def check_job_server(options: PipelineOptions) -> None:
    """Check that a job server answers at --job_endpoint, where that is given.

    Raises:
      UserError: there is none to ask, or none answers within five seconds, or --job_server_timeout if that is given.
    """
    portable = options.view_as(PortableOptions)
    if not portable.job_endpoint and options.view_as(StandardOptions).runner == "PortableRunner":
        raise UserError(
            "--runner PortableRunner needs --job_endpoint, HOST:PORT of a job server; FlinkRunner and SparkRunner start"
            " one themselves"
        )
    if portable.job_endpoint in (None, "", _EMBEDDED):
        return
    import grpc  # late: local jobs need not spend the time

    seconds = seconds_to_wait(portable, _SECONDS)
    with grpc.insecure_channel(portable.job_endpoint) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=seconds)
        except grpc.FutureTimeoutError:
            raise UserError(
                f"--job_endpoint {portable.job_endpoint}: no job server answered within {seconds} seconds; expected"
                " HOST:PORT of one that runs and can be reached from here; --job_server_timeout SECONDS waits longer"
            ) from None


def seconds_to_wait(portable: PortableOptions, seconds: int) -> int:
    """What --job_server_timeout says, `seconds` where it says nothing."""
    asked: int = portable.job_server_timeout
    return asked if asked != _BEAMS_SECONDS else seconds


def check_google_credentials(options: PipelineOptions) -> None:
    """Check that there are credentials for Dataflow, which Beam would look for again at each of its requests.

    Raises:
      UserError: there are none, or they cannot be read.
    """
    if options.view_as(GoogleCloudOptions).no_auth:
        return
    import google.auth
    from google.auth.exceptions import GoogleAuthError

    logging.getLogger(google.auth.__name__).setLevel(logging.ERROR)  # the one sentence below says it
    try:
        google.auth.default(scopes=options.view_as(GoogleCloudOptions).gcp_oauth_scopes)
    except GoogleAuthError as error:
        raise UserError(
            f"--runner DataflowRunner: no credentials for Google's cloud ({' '.join(str(error).split())}); run `gcloud"
            " auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to the key file of a service"
            " account"
        ) from None
