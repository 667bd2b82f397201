"""Describe the differences between two versions."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from shardmill.data.features import Feature
from shardmill.data.kinds import kind_of
from shardmill.quality.checks import changed_ids, describe_type, list_some, measured_label_association
from shardmill.quality.distances import Frequencies, l_infinity_lower_bound, share_floor
from shardmill.quality.limits import LEAKAGE_THRESHOLD
from shardmill.quality.profile import Profile, frequencies, sample_size

_ROWS = ("csv", "jsonl", "parquet", "avro")  # formats in a manifest's configuration whose examples are rows
_SHOWN = 4  # features whose values are listed
_FEWEST = 0.1  # by how much of the old standard deviation a mean has to move, or a share, to be reported
_STANDARD_ERRORS = 4  # of a mean, less than which is taken for chance
_PRESENCE = 0.05  # of all examples: a change of the share that has a feature, to be reported


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference between two versions."""

    # `examples`, `rejected`, `split`, `feature`, `type`, `presence`, `leakage`, `class`, `id`, `mean` or `values`
    what: str
    words: str  # description in a few words
    feature: str = ""  # "" if about whole examples
    before: float | str | None = None  # None if absent
    after: float | str | None = None  # None if absent


def describe_changes(new: Profile, old: Profile, differences: Sequence[Difference] | None = None) -> str:
    """Return one line about the differences of `new` from `old`, which are found unless they are given."""
    differences = find_differences(new, old) if differences is None else differences
    if new.examples == old.examples:
        unit = _name_unit(new)
        # Statistics are of single columns: labels may have been shuffled among the records, which nobody sees here.
        same = "nothing else changed in its statistics" if not differences else ""
        parts = [f"{new.examples:,} {unit}, as before", *(difference.words for difference in differences), same]
    else:
        parts = [difference.words for difference in differences]
    return f"since {old.version}: {'; '.join(filter(None, parts))}"


def find_differences(new: Profile, old: Profile) -> list[Difference]:
    """Return all differences beyond chance, the most important first. Removed and added items are always included."""
    means = sorted(_compare_means(new, old), key=_relative_change, reverse=True)
    values = sorted(_compare_values(new, old), key=_change, reverse=True)
    return [
        *_compare_counts(new, old),
        *_compare_splits(new, old),
        *_compare_classes(new, old),
        *_compare_features(new, old),
        *_compare_presence(new, old),
        *_compare_leakage(new, old),
        *means[:_SHOWN],
        *values[:_SHOWN],
    ]


def _name_unit(profile: Profile) -> str:
    return "rows" if profile.manifest.configuration.get("format") in _ROWS else "examples"


def _compare_counts(new: Profile, old: Profile) -> Iterator[Difference]:
    if new.examples != old.examples:
        words = f"{old.examples:,} -> {new.examples:,} {_name_unit(new)}"
        yield Difference("examples", words, "", old.examples, new.examples)
    before, after = (int(profile.manifest.rejects.get("records", 0)) for profile in (old, new))
    if before != after:
        yield Difference("rejected", f"{before:,} -> {after:,} rejected", "", before, after)


def _compare_splits(new: Profile, old: Profile) -> Iterator[Difference]:
    for split, examples in old.splits.items():
        if examples and not new.splits.get(split):
            yield Difference("split", f"split {split} gone", "", examples, new.splits.get(split))
    for split, examples in new.splits.items():
        if examples and not old.splits.get(split):
            yield Difference("split", f"split {split} new", "", old.splits.get(split), examples)


def _compare_classes(new: Profile, old: Profile) -> Iterator[Difference]:
    for label in new.labels:
        before = old.features.get(label.name)
        if before is None or not kind_of(before).has_classes:
            continue
        of = f" of {label.name}" if len(new.labels) > 1 else ""
        yield from _compare_class_names(new, old, label, before, of)
        if moved := changed_ids(before, label):
            yield Difference("id", f"ids{of} moved: {list_some(moved)}", label.name, None, len(moved))


def _compare_class_names(
    new: Profile, old: Profile, label: Feature, before: Feature, suffix: str
) -> Iterator[Difference]:
    now, then = new.class_counts(label), old.class_counts(before)
    if now is None or then is None:  # the classes that have examples are not on record; the names are
        now_there, then_there = set(label.class_names), set(before.class_names)
    else:
        now_there, then_there = set(+now), set(+then)
    for word, names, order in (
        ("gone", then_there - now_there, before.class_names),
        ("new", now_there - then_there, label.class_names),
    ):
        shown = [name for name in order if name in names]
        if shown:
            words = f"class{'' if len(shown) == 1 else 'es'} {list_some(shown)}{suffix} {word}"
            counts = (len(shown), None) if word == "gone" else (None, len(shown))
            yield Difference("class", words, label.name, *counts)


def _compare_features(new: Profile, old: Profile) -> Iterator[Difference]:
    before, now = ({name: describe_type(feature) for name, feature in side.features.items()} for side in (old, new))
    for name in before:
        if name not in now:
            yield Difference("feature", f"column {name} gone", name, before[name], None)
    for name in now:
        if name not in before:
            yield Difference("feature", f"column {name} new", name, None, now[name])
        elif before[name] != now[name]:
            yield Difference("type", f"column {name} {before[name]} -> {now[name]}", name, before[name], now[name])


def _compare_presence(new: Profile, old: Profile) -> Iterator[Difference]:
    for name in new.features:
        if name in old.features:
            before, after = _compute_share(old, name), _compute_share(new, name)
            if before is not None and after is not None and abs(before - after) > _PRESENCE:
                yield Difference("presence", f"{name} in {before:.2%} -> {after:.2%} of them", name, before, after)


def _compare_leakage(new: Profile, old: Profile) -> Iterator[Difference]:
    for name, feature in new.features.items():
        if name not in old.features or feature.role == "source":
            continue
        before, after = measured_label_association(old, name), measured_label_association(new, name)
        if before is None or after is None or (before > LEAKAGE_THRESHOLD) == (after > LEAKAGE_THRESHOLD):
            continue
        words = f"{name} looks like the label{'' if after > before else ' no longer'}: {before:.1%} -> {after:.1%}"
        yield Difference("leakage", words, name, before, after)


def _compute_share(profile: Profile, feature: str) -> float | None:
    shares = [(profile.presence(split, feature), examples) for split, examples in profile.splits.items() if examples]
    if not shares or any(share is None for share, _ in shares):
        return None
    return math.fsum((share or 0.0) * examples for share, examples in shares) / profile.examples


def _compare_means(new: Profile, old: Profile) -> Iterator[Difference]:
    for name in new.features:
        if name not in old.features:
            continue
        before, after = old.numeric_mean(name), new.numeric_mean(name)
        if before is None or after is None:
            continue
        deviation = _find_largest_deviation(old, name)
        error = math.hypot(_compute_standard_error(old, name), _compute_standard_error(new, name))
        if abs(after - before) > max(_FEWEST * deviation, _STANDARD_ERRORS * error):
            words = f"{name} mean {_format_number(before)} -> {_format_number(after)}"
            yield Difference("mean", words, name, before, after)


def _format_number(number: float) -> str:
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"


def _find_largest_deviation(profile: Profile, feature: str) -> float:
    found = (summary.numbers for _, summary in profile.summaries(feature))
    return max((float(numbers.std_dev or 0.0) for numbers in found if numbers is not None), default=0.0)


def _compute_standard_error(profile: Profile, feature: str) -> float:
    size = math.fsum(sample_size(summary, split.examples) for split, summary in profile.summaries(feature))
    return _find_largest_deviation(profile, feature) / math.sqrt(size) if size else 0.0


def _relative_change(difference: Difference) -> float:
    return _change(difference) / max(abs(float(difference.before or 0.0)), abs(float(difference.after or 0.0)))


def _change(difference: Difference) -> float:
    return abs(float(difference.after or 0.0) - float(difference.before or 0.0))


def _compare_values(new: Profile, old: Profile) -> Iterator[Difference]:
    for name in new.features:
        found = [
            difference for split in new.splits if (difference := _find_most_moved(new, old, split, name)) is not None
        ]
        if found:
            yield max(found, key=_change)


def _find_most_moved(new: Profile, old: Profile, split: str, feature: str) -> Difference | None:
    now, then = new.summary(split, feature), old.summary(split, feature)
    if now is None or then is None or not new.splits[split] or not old.splits.get(split):
        return None
    if now.classes is None and (now.numbers is not None or now.top_values is None):
        return None  # no strings, as in most columns of wide tables
    counted, counted_before = frequencies(now, new.splits[split]).get(""), frequencies(then, old.splits[split]).get("")
    if counted is None or counted_before is None:
        return None
    if now.classes is not None and then.classes is not None:  # `_compare_classes` yields those that only one has
        both = {name for name, count in now.classes.items() if count and then.classes.get(name)}
        counted, counted_before = _restrict_to(counted, both), _restrict_to(counted_before, both)
    value, distance = l_infinity_lower_bound(counted, counted_before)
    before, after = counted_before.share(value)[0], counted.share(value)[0]
    sizes = sample_size(now, new.splits[split]), sample_size(then, old.splits[split])
    if distance <= max(_FEWEST, share_floor((before + after) / 2, *sizes, len(counted.counts) + 1)):
        return None
    words = f"{feature} {value} {before:.2%} -> {after:.2%} of {split}"
    return Difference("values", words, feature, before, after)


def _restrict_to(counted: Frequencies, values: set[str]) -> Frequencies:
    return replace(counted, counts={value: count for value, count in counted.counts.items() if value in values})
