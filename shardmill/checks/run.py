"""All checks of a version that is about to be published."""

from collections.abc import Iterable

from shardmill.checks import classes, columns, counts, drift
from shardmill.checks.asked import Constraints
from shardmill.checks.constraints import constraints
from shardmill.checks.limits import LimitsByCheck
from shardmill.checks.profile import Profile
from shardmill.checks.result import CheckResult


def run_checks(
    new: Profile, old: Profile | None, limits: LimitsByCheck, asked: Constraints | None = None
) -> list[CheckResult]:
    """What every check found, in an order that depends on the two versions alone.

    Args:
      new: the version that is to be published.
      old: the version it is compared with; None where there is none, which is said.
      limits: the thresholds of every check, by its name.
      asked: what a schema asks for.
    """
    own = {} if asked is None else asked.limits()
    results = [
        *counts.rejects(new, limits),
        *counts.shards(new, limits),
        *classes.smallest_class(new, limits),
        *drift.skew(new, limits, own),
        *(constraints(new, old, asked) if asked is not None else ()),
    ]
    if old is None:
        said = "no version to compare with: what changed is not checked"
        return [CheckResult("baseline", "unknown", said), *results]
    return [
        *counts.examples(new, old, limits),
        *columns.columns(new, old, limits),
        *columns.presence(new, old, limits),
        *classes.classes(new, old, limits),
        *drift.drift(new, old, limits, own),
        *results,
    ]


def failures(results: Iterable[CheckResult]) -> list[CheckResult]:
    """Those for which nothing is published."""
    return [result for result in results if result.severity == "error"]
