"""Has the source stopped? The newest input must not be older than the recipe says."""

from datetime import UTC, datetime

from shardmill.errors import ChecksError
from shardmill.pipelines.recipes.durations import shown
from shardmill.pipelines.recipes.sections import FreshnessOptions

_SKEW = 300.0  # seconds that clocks of two machines may differ by, without a word


def check_freshness(newest: float | None, options: FreshnessOptions, now: float) -> str | None:
    """What must be said of the age of the newest input; None where there is nothing to say.

    Args:
      newest: when it was written, in seconds since 1970; None where there is no input, which the job itself tells.
      options: how old it may be.
      now: the time, likewise.

    Raises:
      ChecksError: it is older than `error_after`; the data that were asked for are not there.
    """
    if newest is None or (options.warn_after is None and options.error_after is None):
        return None
    age, when = now - newest, datetime.fromtimestamp(newest, UTC).strftime("%Y-%m-%d %H:%M UTC")
    if age < -_SKEW:
        return (
            f"the newest input was written at {when}, {shown(-age)} from now: a clock is wrong, and how fresh the input"
            " is cannot be known"
        )
    said = f"the newest input was written at {when}, {shown(max(age, 0.0))} ago"
    if options.error_after is not None and age > options.error_after:
        raise ChecksError(
            f"{said}; freshness: error_after {shown(options.error_after)} allows no more: has the source stopped?"
            " Nothing was published"
        )
    if options.warn_after is not None and age > options.warn_after:
        return f"{said}, more than freshness: warn_after {shown(options.warn_after)}"
    return None
