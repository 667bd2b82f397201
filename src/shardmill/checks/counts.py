"""Checks of how much there is: examples, rejects, shards."""

from collections.abc import Iterator

from shardmill.checks.chance import ratio_ceiling, ratio_floor
from shardmill.checks.limits import LimitsByCheck
from shardmill.checks.profile import Profile
from shardmill.checks.result import CheckResult
from shardmill.metadata.manifest import SplitEntry


def examples(new: Profile, old: Profile, limits: LimitsByCheck) -> Iterator[CheckResult]:
    """Examples in all, and in each split.

    The splits of a hash differ by chance, so a split has a noise floor; what there is in all has none.
    """
    yield from _ratio("", new.examples, old.examples, old, limits, floored=False)
    if list(new.splits) == list(old.splits) and len(new.splits) == 1:
        return
    for split, before in old.splits.items():
        yield from _ratio(split, new.splits.get(split, 0), before, old, limits, floored=split in new.splits)


def _ratio(
    split: str, now: int, before: int, old: Profile, limits: LimitsByCheck, floored: bool
) -> Iterator[CheckResult]:
    under, over = limits["examples_under"], limits["examples_over"]
    what = f"split {split!r} has" if split else "there are"
    said = f"{what} {now:,} examples, {before:,} in {old.version}"
    if not before:
        yield CheckResult("examples_under", "ok", said, split=split)
        return
    ratio = now / before
    said = f"{said}: {ratio:.3g} times as many"
    if not under.is_off:
        floor = ratio_floor(before) if floored else None
        severity, threshold = under.under(ratio, floor)
        yield CheckResult("examples_under", severity, said, "", split, ratio, threshold, floor)
    if not over.is_off:
        ceiling = ratio_ceiling(before) if floored else None
        severity, threshold = over.over(ratio, ceiling or 0.0)
        yield CheckResult("examples_over", severity, said, "", split, ratio, threshold, ceiling)


def rejects(new: Profile, limits: LimitsByCheck) -> Iterator[CheckResult]:
    """The share of records that were rejected."""
    limit = limits["rejects_over"]
    if limit.is_off:
        return
    rejected, records = new.manifest.rejects.get("records", 0), new.manifest.input.get("records", 0)
    if not records:
        yield CheckResult("rejects_over", "unknown", "how many records the input has is not on record")
        return
    lost = new.manifest.rejects.get("lost", {})
    about = "about " if lost.get("estimated") else "at least " if lost.get("uncounted_files") else ""
    severity, threshold = limit.over(rejected / records)
    said = f"{about}{rejected:,} of {records:,} records were rejected"
    yield CheckResult("rejects_over", severity, said, value=rejected / records, threshold=threshold)


def shards(new: Profile, limits: LimitsByCheck) -> Iterator[CheckResult]:
    """The smallest shard of each split, as a share of the mean; in bytes where these are balanced."""
    limit = limits["shards_under"]
    if limit.is_off:
        return
    for split in new.manifest.splits:
        if len(split.shards) > 1:
            yield _smallest(new, split, limits)


def _smallest(new: Profile, split: SplitEntry, limits: LimitsByCheck) -> CheckResult:
    in_bytes = new.manifest.configuration.get("balance") == "bytes"
    sizes = [shard.size_bytes if in_bytes else shard.examples for shard in split.shards]
    mean = sum(sizes) / len(sizes)
    share = min(sizes) / mean if mean else 1.0
    severity, threshold = limits["shards_under"].under(share)
    unit = "bytes" if in_bytes else "examples"
    said = f"the smallest of {len(sizes):,} shards of {split.name!r} has {min(sizes):,} {unit}, the mean is {mean:,.1f}"
    if in_bytes and severity != "ok":
        # Shards of equal bytes may differ by the largest record, and how large that is, is not on record.
        severity, said = "unknown", f"{said}; a record that is larger than the difference would explain it"
    return CheckResult("shards_under", severity, said, "", split.name, share, threshold)
