"""The options that only a job server knows, such as Flink's `--max_bundle_size`."""

import argparse
from collections.abc import Sequence

_SECONDS = 5  # waited for an answer
# Flink ends the workers as soon as no step has anything for them, and starts others for the next, seconds each.
_KEPT = "--environment_cache_millis"
_MILLISECONDS = 60_000  # that workers stay


def is_portable(known: argparse.Namespace) -> bool:
    """Whether Beam's options name a runner that asks a job server."""
    runner = (known.runner or "").rpartition(".")[2]
    return runner in ("FlinkRunner", "SparkRunner") or (runner == "PortableRunner" and known.job_endpoint is not None)


def flags_of_server(known: argparse.Namespace) -> frozenset[str] | None:
    """The flags that the job server at --job_endpoint has; None where there is none that answers.

    That it does not is said later, when the runner is checked.
    """
    if not known.job_endpoint or known.job_endpoint == "embed":
        return None
    import grpc  # late: local jobs need not spend the time
    from apache_beam.portability.api import beam_job_api_pb2, beam_job_api_pb2_grpc

    with grpc.insecure_channel(known.job_endpoint) as channel:
        server = beam_job_api_pb2_grpc.JobServiceStub(channel)
        asked = beam_job_api_pb2.DescribePipelineOptionsRequest()
        try:
            found = server.DescribePipelineOptions(asked, timeout=_SECONDS, wait_for_ready=True)
        except grpc.RpcError:
            return None
    return frozenset(f"--{option.name}" for option in found.options)


def defaults(rest: Sequence[str]) -> list[str]:
    """What to add to the words `rest` of a job on a cluster."""
    return [] if any(word.partition("=")[0] == _KEPT for word in rest) else [f"{_KEPT}={_MILLISECONDS}"]
