"""Why a job failed, as the one error to show.

A step writes down which error it ends with (transforms.workers.reported). Where it could not, or where no step failed,
there is what the runner raised:
in the launcher's own process the exception itself, which Beam made of that of the step, or else the runner's own words.
"""

from collections.abc import Iterator

from shardmill.errors import KINDS, JobError, UserError
from transforms.workers.reported import Failure


def to_raise(error: BaseException, failure: Failure | None) -> Exception:
    """The error to show for what a runner raised: ours with its own sentence, a JobError for everything else.

    Args:
      error: what the runner raised.
      failure: what a step has reported.
    """
    if failure is not None and failure.kind in KINDS:
        return KINDS[failure.kind](failure.sentence)
    if failure is not None:
        return JobError(f"the job failed in step {failure.step}: {failure.sentence}")
    if isinstance(error, (UserError, JobError)):
        return next(one for one in _chain(error) if type(one) is type(error))
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    return JobError(f"the job failed: {lines[-1].strip() if lines else type(error).__name__}")


def _chain(error: BaseException) -> Iterator[Exception]:
    """What `error` was made of, the first cause first; the error itself last."""
    before = error.__cause__ or error.__context__
    if before is not None:
        yield from _chain(before)
    if isinstance(error, Exception):
        yield error
