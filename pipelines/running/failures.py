"""Why a job failed, as the one error to show.

A step writes down which error it ends with (transforms.workers.reported). Where it could not, or where no step failed,
there is what the runner raised: in the launcher's own process the exception itself, which Beam made of that of the
step, or else the runner's own words.
"""

import re
from collections.abc import Iterator
from importlib import metadata

import shardmill
from shardmill.errors import KINDS, JobError, UserError
from shardmill.transforms.workers.reported import Failure

# Words of Flink's errors, and of workers that it has not what they need for, and what to do
_OF_FLINK = (
    (
        "No module named 'transforms",
        "its workers have no shardmill; let their image, or their pool's Python, have shardmill"
        f" {shardmill.__version__}, as this one, or give --setup_file",
    ),
    (
        "No module named 'apache_beam",
        "its workers have no Beam; let their image, or their pool's Python, have apache-beam"
        f" {metadata.version('apache-beam')}",
    ),
    (
        "java.io.InvalidClassException",
        "the job server is for another version of Flink than the cluster is; take that of the cluster's, such as"
        " apache/beam_flink1.19_job_server for Flink 1.19",
    ),
    (
        "Insufficient number of network buffers",
        "Flink's TaskManagers have too few network buffers for it; let taskmanager.memory.network.min and"
        " taskmanager.memory.network.max be 256m, or more, in their configuration, or give a smaller --parallelism",
    ),
    (
        "OutOfMemoryError: Direct buffer memory",
        "Flink's TaskManagers have too little direct memory, of which each job on the same TaskManager keeps some for a"
        " while; let taskmanager.memory.framework.off-heap.size be 512m in their configuration, or start them anew",
    ),
    (
        "OutOfMemoryError: Metaspace",
        "Flink's TaskManagers have too little memory for classes, of which each job on the same TaskManager keeps some"
        " for a while; let taskmanager.memory.jvm-metaspace.size be 512m in their configuration, or start them anew",
    ),
    (
        "java.net.ConnectException",
        "nobody listens where its workers are to be started; let a pool of workers be at --environment_config, beside"
        " each TaskManager",
    ),
    (
        "NoResourceAvailableException",
        "Flink has too few free slots for it; start more TaskManagers, raise taskmanager.numberOfTaskSlots, or give a"
        " smaller --parallelism",
    ),
)


_OF_ANALYSIS = "AnalyzeModule/"  # the steps of TensorFlow Transform
_SHOWN = 300  # letters of what TensorFlow says


def to_raise(error: BaseException, failure: Failure | None) -> Exception:
    """The error to show for what a runner raised: ours with its own sentence, a JobError for everything else.

    Args:
      error: what the runner raised.
      failure: what a step has reported.
    """
    if failure is not None and failure.kind in KINDS:
        return KINDS[failure.kind](failure.sentence)
    if failure is not None and failure.step.startswith(_OF_ANALYSIS):
        return JobError(
            f"--module_file: TensorFlow Transform cannot analyze the examples: {_said_of_analysis(failure)}"
        )
    if failure is not None:
        return JobError(f"the job failed in step {failure.step}: {failure.sentence}")
    if isinstance(error, (UserError, JobError)):
        return next(one for one in _chain(error) if type(one) is type(error))
    for words, remedy in _OF_FLINK:
        if words in str(error):
            return JobError(f"the job failed: {remedy}")
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    return JobError(f"the job failed: {lines[-1].strip() if lines else type(error).__name__}")


def _said_of_analysis(failure: Failure) -> str:
    """What TensorFlow says, without the batch of examples and the node that it says it of."""
    found = re.search(r'apply the transformation: "(.*)"\. Batch instances:', failure.sentence)
    said = found[1] if found else failure.sentence
    said = (said.partition("<stack traces unavailable> ")[2] or said).partition(" [[{{node")[0]
    return said if len(said) <= _SHOWN else f"{said[: _SHOWN - 1]}…"


def _chain(error: BaseException) -> Iterator[Exception]:
    """What `error` was made of, the first cause first; the error itself last."""
    before = error.__cause__ or error.__context__
    if before is not None:
        yield from _chain(before)
    if isinstance(error, Exception):
        yield error
