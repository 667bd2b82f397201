"""All checks of a version that is about to be published."""

import difflib
from collections.abc import Iterable, Iterator

from shardmill.checks import classes, columns, counts, drift, leakage
from shardmill.checks.asked import Constraints
from shardmill.checks.limits import ByFeature, LimitsByCheck
from shardmill.checks.profile import Profile
from shardmill.checks.result import CheckResult


def run_checks(
    new: Profile,
    old: Profile | None,
    limits: LimitsByCheck,
    asked: Constraints | None = None,
    by_feature: ByFeature | None = None,
) -> list[CheckResult]:
    """What every check found, in an order that depends on the two versions alone.

    Args:
      new: the version that is to be published.
      old: the version it is compared with; None where there is none, which is said.
      limits: the thresholds of every check, by its name.
      asked: what a schema asks for.
      by_feature: the thresholds of single features, before those of a schema and of all.
    """
    told, by_schema = by_feature or {}, {} if asked is None else asked.limits()
    own = {name: {**by_schema.get(name, {}), **told.get(name, {})} for name in (*by_schema, *told)}
    results = [
        *counts.rejects(new, limits),
        *counts.shards(new, limits),
        *_strangers(new, told),
        *classes.smallest_class(new, limits, own),
        *drift.skew(new, limits, own),
        *leakage.shared_contents(new, limits),
        *leakage.similar_contents(new, limits),
        *leakage.conflicting_labels(new, limits),
        *leakage.label_leakage(new, limits, own),
        *_constraints(new, old, asked),
    ]
    if old is None:
        said = "no version to compare with: what changed is not checked"
        return [CheckResult("baseline", "unknown", said), *results]
    return [
        *counts.examples(new, old, limits),
        *columns.columns(new, old, limits),
        *columns.presence(new, old, limits, own),
        *classes.classes(new, old, limits, own),
        *drift.drift(new, old, limits, own),
        *results,
    ]


def _constraints(new: Profile, old: Profile | None, asked: Constraints | None) -> Iterable[CheckResult]:
    """What a schema asks for beside distances; the protos are imported where there is one."""
    if asked is None:
        return ()
    from shardmill.checks.constraints import constraints

    return constraints(new, old, asked)


def _strangers(new: Profile, told: ByFeature) -> Iterator[CheckResult]:
    """The features that have thresholds of their own, and are none of the version's."""
    for name in told:
        if name not in new.features:
            near = difflib.get_close_matches(name, new.features, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            said = f"there is no feature {name!r}, which has thresholds of its own{hint}"
            yield CheckResult("columns", "warn", said, name)


def failures(results: Iterable[CheckResult]) -> list[CheckResult]:
    """Those for which nothing is published."""
    return [result for result in results if result.severity == "error"]
