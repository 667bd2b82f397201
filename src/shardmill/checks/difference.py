"""What differs between two versions, in words: a line that ends a command, and the lines of `shardmill diff`."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from shardmill.checks.chance import share_floor
from shardmill.checks.classes import moved_ids
from shardmill.checks.columns import some, type_in_words
from shardmill.checks.distances import Frequencies, least_l_infinity
from shardmill.checks.leakage import tells_label
from shardmill.checks.limits import LOOKS_LIKE_LABEL
from shardmill.checks.profile import Profile, frequencies, sample_size
from shardmill.features.feature import Feature
from shardmill.kinds.registry import kind_of

_ROWS = ("csv", "jsonl", "parquet", "avro")  # formats in a manifest's configuration whose examples are rows
_SHOWN = 4  # features of which values are told
_FEWEST = 0.1  # by how much of the old standard deviation a mean has to move, or a share, to be told
_STANDARD_ERRORS = 4  # of a mean, less than which is taken for chance
_PRESENCE = 0.05  # of all examples: a change of the share that has a feature, to be told


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that differs.

    Attributes:
      what: `examples`, `rejected`, `split`, `feature`, `type`, `presence`, `leakage`, `class`, `id`, `mean` or
        `values`.
      feature: "" where it is about whole examples.
      before, after: as they are; None where there is none.
      words: it in a few words.
    """

    what: str
    words: str
    feature: str = ""
    before: float | str | None = None
    after: float | str | None = None


def since(new: Profile, old: Profile) -> str:
    """One line: what is different in `new` since `old`."""
    found = differences(new, old)
    if new.examples == old.examples:
        unit = _unit(new)
        # Statistics are of single columns: labels may have been shuffled among the records, which nobody sees here.
        same = "nothing else changed in its statistics" if not found else ""
        parts = [f"{new.examples:,} {unit}, as before", *(difference.words for difference in found), same]
    else:
        parts = [difference.words for difference in found]
    return f"since {old.version}: {'; '.join(filter(None, parts))}"


def differences(new: Profile, old: Profile) -> list[Difference]:
    """All that differs, what matters most first; nothing that chance may do but what is there and what is not."""
    return [
        *_counts(new, old),
        *_splits(new, old),
        *_classes(new, old),
        *_features(new, old),
        *_presence(new, old),
        *_leaks(new, old),
        *sorted(_means(new, old), key=lambda found: -_jump(found))[:_SHOWN],
        *sorted(_values(new, old), key=lambda found: -abs(_number(found.after) - _number(found.before)))[:_SHOWN],
    ]


def _unit(profile: Profile) -> str:
    return "rows" if profile.manifest.configuration.get("format") in _ROWS else "examples"


def _counts(new: Profile, old: Profile) -> Iterator[Difference]:
    if new.examples != old.examples:
        words = f"{old.examples:,} -> {new.examples:,} {_unit(new)}"
        yield Difference("examples", words, "", old.examples, new.examples)
    before, after = (int(profile.manifest.rejects.get("records", 0)) for profile in (old, new))
    if before != after:
        yield Difference("rejected", f"{before:,} -> {after:,} rejected", "", before, after)


def _splits(new: Profile, old: Profile) -> Iterator[Difference]:
    for split, examples in old.splits.items():
        if examples and not new.splits.get(split):
            yield Difference("split", f"split {split} gone", "", examples, new.splits.get(split))
    for split, examples in new.splits.items():
        if examples and not old.splits.get(split):
            yield Difference("split", f"split {split} new", "", old.splits.get(split), examples)


def _classes(new: Profile, old: Profile) -> Iterator[Difference]:
    for label in new.labels:
        before = old.features.get(label.name)
        if before is None or not kind_of(before).has_classes:
            continue
        of = f" of {label.name}" if len(new.labels) > 1 else ""
        yield from _gone_or_new(new, old, label, before, of)
        if moved := moved_ids(before, label):
            yield Difference("id", f"ids{of} moved: {some(moved)}", label.name, None, len(moved))


def _gone_or_new(new: Profile, old: Profile, label: Feature, before: Feature, of: str) -> Iterator[Difference]:
    now, then = new.class_counts(label), old.class_counts(before)
    if now is None or then is None:  # what there are examples of is not on record; the names are
        now_there, then_there = set(label.class_names), set(before.class_names)
    else:
        now_there, then_there = set(+now), set(+then)
    for word, names, order in (
        ("gone", then_there - now_there, before.class_names),
        ("new", now_there - then_there, label.class_names),
    ):
        told = [name for name in order if name in names]
        if told:
            words = f"class{'' if len(told) == 1 else 'es'} {some(told)}{of} {word}"
            counts = (len(told), None) if word == "gone" else (None, len(told))
            yield Difference("class", words, label.name, *counts)


def _features(new: Profile, old: Profile) -> Iterator[Difference]:
    before, now = old.features, new.features
    for name in before:
        if name not in now:
            yield Difference("feature", f"column {name} gone", name, type_in_words(before[name]), None)
    for name in now:
        if name not in before:
            yield Difference("feature", f"column {name} new", name, None, type_in_words(now[name]))
        elif type_in_words(before[name]) != type_in_words(now[name]):
            types = type_in_words(before[name]), type_in_words(now[name])
            yield Difference("type", f"column {name} {types[0]} -> {types[1]}", name, *types)


def _presence(new: Profile, old: Profile) -> Iterator[Difference]:
    for name in new.features:
        if name in old.features:
            before, after = _share(old, name), _share(new, name)
            if before is not None and after is not None and abs(before - after) > _PRESENCE:
                yield Difference("presence", f"{name} in {before:.2%} -> {after:.2%} of them", name, before, after)


def _leaks(new: Profile, old: Profile) -> Iterator[Difference]:
    """The features that look like the label now, or no longer do."""
    features = old.features
    for name, feature in new.features.items():
        if name not in features or feature.role == "source":
            continue
        before, after = tells_label(old, name), tells_label(new, name)
        if before is None or after is None or (before > LOOKS_LIKE_LABEL) == (after > LOOKS_LIKE_LABEL):
            continue
        words = f"{name} looks like the label{'' if after > before else ' no longer'}: {before:.1%} -> {after:.1%}"
        yield Difference("leakage", words, name, before, after)


def _share(profile: Profile, feature: str) -> float | None:
    """The share of all examples that have a feature."""
    shares = [(profile.presence(split, feature), examples) for split, examples in profile.splits.items() if examples]
    if not shares or any(share is None for share, _ in shares):
        return None
    return math.fsum((share or 0.0) * examples for share, examples in shares) / profile.examples


def _means(new: Profile, old: Profile) -> Iterator[Difference]:
    for name in new.features:
        if name not in old.features:
            continue
        before, after = old.numeric_mean(name), new.numeric_mean(name)
        if before is None or after is None:
            continue
        deviation, error = _deviation(old, name), math.hypot(_error(old, name), _error(new, name))
        if abs(after - before) > max(_FEWEST * deviation, _STANDARD_ERRORS * error):
            yield Difference("mean", f"{name} mean {_short(before)} -> {_short(after)}", name, before, after)


def _short(number: float) -> str:
    digits = 0 if abs(number) >= 1000 else 3
    return f"{number:,.0f}" if digits == 0 else f"{number:.3g}"


def _deviation(profile: Profile, feature: str) -> float:
    """The largest standard deviation of a feature's numbers in a split."""
    found = (summary.numbers for _, summary in profile.summaries(feature))
    return max((float(numbers.std_dev or 0.0) for numbers in found if numbers is not None), default=0.0)


def _error(profile: Profile, feature: str) -> float:
    """The standard error of the mean of a feature's numbers."""
    size = math.fsum(sample_size(summary, split.examples) for split, summary in profile.summaries(feature))
    return _deviation(profile, feature) / math.sqrt(size) if size else 0.0


def _jump(found: Difference) -> float:
    """By how much a mean has changed, as a share of it."""
    before, after = _number(found.before), _number(found.after)
    return abs(after - before) / max(abs(before), abs(after))


def _number(value: float | str | None) -> float:
    return float(value or 0.0)


def _values(new: Profile, old: Profile) -> Iterator[Difference]:
    """Values of strings that are more or less frequent, in the split where they are most so."""
    for name in new.features:
        found = [difference for split in new.splits if (difference := _most_moved(new, old, split, name)) is not None]
        yield from sorted(found, key=lambda one: -abs(_number(one.after) - _number(one.before)))[:1]


def _most_moved(new: Profile, old: Profile, split: str, feature: str) -> Difference | None:
    now, then = new.summary(split, feature), old.summary(split, feature)
    if now is None or then is None or not new.splits[split] or not old.splits.get(split):
        return None
    one, other = frequencies(now, new.splits[split]).get(""), frequencies(then, old.splits[split]).get("")
    if one is None or other is None:
        return None
    counted = one, other
    if now.classes is not None and then.classes is not None:  # `_classes` tells of those that only one has
        both = {name for name, count in now.classes.items() if count and then.classes.get(name)}
        counted = _only(counted[0], both), _only(counted[1], both)
    value, distance = least_l_infinity(counted[0], counted[1])
    before, after = counted[1].share(value)[0], counted[0].share(value)[0]
    sizes = sample_size(now, new.splits[split]), sample_size(then, old.splits[split])
    if distance <= max(_FEWEST, share_floor((before + after) / 2, *sizes, len(counted[0].counts) + 1)):
        return None
    words = f"{feature} {value} {before:.2%} -> {after:.2%} of {split}"
    return Difference("values", words, feature, before, after)


def _only(counted: Frequencies, values: set[str]) -> Frequencies:
    return replace(counted, counts={value: count for value, count in counted.counts.items() if value in values})
