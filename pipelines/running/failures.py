"""What a runner raised, as the one error to show.

In the launcher's own process that is the exception of a step, and the one it was made of. From any other worker, here
or elsewhere, the Fn API brings Python's text of the two and nothing else. Beam writes the step behind the message of
the second; how, matters only where the first is not there.
"""

import re
from collections.abc import Iterator, Sequence

from shardmill.errors import ChecksError, JobError, LockedError, OutrunError, UserError

_KINDS: dict[str, type[UserError] | type[JobError]] = {
    kind.__name__: kind for kind in (UserError, JobError, ChecksError, LockedError, OutrunError)
}
# The last line of Python's text of an exception; a sentence is one line, for `printable` makes it so.
_OURS = re.compile(rf"^.*?shardmill\.errors\.({'|'.join(_KINDS)}): (.*)$", re.MULTILINE)
_STEP = re.compile(r"\[while running '([^\n']*)")
_BEHIND = re.compile(r" \[while running '[^']*'\][^\n]*$")


def translate(error: BaseException) -> Exception:
    """The error to show for what a runner raised: ours with its own sentence, a JobError for everything else."""
    found: list[tuple[type[UserError] | type[JobError], str]]
    if isinstance(error, (UserError, JobError)):
        found = [(type(one), str(one)) for one in _chain(error) if isinstance(one, (UserError, JobError))]
    else:
        found = [(_KINDS[kind], sentence) for kind, sentence in _OURS.findall(str(error))]
    if found:
        kind, last = found[-1]
        return kind(_own_sentence(last, [sentence for other, sentence in found if other is kind]))
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    step = _STEP.search(str(error))
    where = f" in step {step[1]}" if step else ""
    cause = re.sub(r" \[while running '[^']*'\]", "", lines[-1]) if lines else ""
    return JobError(f"the job failed{where}: {cause or type(error).__name__}")


def _chain(error: BaseException) -> Iterator[BaseException]:
    """What `error` was made of, the first cause first, as Python prints them; the error itself last."""
    before = error.__cause__ or error.__context__
    if before is not None:
        yield from _chain(before)
    yield error


def _own_sentence(last: str, sentences: Sequence[str]) -> str:
    """The sentence that `last` is, without the step that Beam wrote behind it."""
    whole = [sentence for sentence in sentences if len(sentence) < len(last) and last.startswith(f"{sentence} [")]
    return max(whole, key=len) if whole else _BEHIND.sub("", last)
