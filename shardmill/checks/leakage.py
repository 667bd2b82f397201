"""Checks of what lets a model know its answers before it is asked."""

from collections.abc import Iterator

from shardmill.checks.limits import LimitsByCheck
from shardmill.checks.profile import Profile
from shardmill.checks.result import CheckResult

_TRAIN = "train"  # whose examples are to be seen: what is measured on is the others


def similar_contents(new: Profile, limits: LimitsByCheck) -> Iterator[CheckResult]:
    """The share of each split's pictures that look like one in another split; nothing where nobody looked for such."""
    limit, near = limits["similar_contents"], new.stats.near_duplicates
    splits = {split: examples for split, examples in new.splits.items() if examples}
    if limit.is_off or near is None or len(splits) < 2:
        return
    for split, examples in splits.items():
        if split == _TRAIN:
            continue
        shared = near.elsewhere.get(split, 0)
        severity, threshold = limit.over(shared / examples)
        said = f"{shared:,} of {examples:,} pictures of {split!r} look like one of another split"
        yield CheckResult("similar_contents", severity, said, "", split, shared / examples, threshold)


def shared_contents(new: Profile, limits: LimitsByCheck) -> Iterator[CheckResult]:
    """The share of each split's examples whose content is in another split, too."""
    limit = limits["shared_contents"]
    splits = {split: examples for split, examples in new.splits.items() if examples}
    if limit.is_off or len(splits) < 2:
        return
    duplicates = new.stats.duplicates
    if duplicates is None:
        yield CheckResult("shared_contents", "unknown", "which examples have equal content is not on record")
        return
    for split, examples in splits.items():
        if split == _TRAIN:
            continue
        shared = duplicates.elsewhere.get(split, 0)
        severity, threshold = limit.over(shared / examples)
        said = f"{shared:,} of {examples:,} examples of {split!r} have the content of an example of another split"
        yield CheckResult("shared_contents", severity, said, "", split, shared / examples, threshold)
