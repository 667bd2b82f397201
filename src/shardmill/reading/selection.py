"""What is read of a data set: which split, which worker's part of it, which features as inputs, which as the label."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from shardmill.errors import UserError
from shardmill.features.feature import Features
from shardmill.features.translation import languages_of
from shardmill.metadata.manifest import Manifest, ShardEntry, SplitEntry
from shardmill.metadata.tfds_metadata import supervised_keys


@dataclass(frozen=True, slots=True)
class Part:
    """One worker's part of a split: every `step`-th example of `shards`, taken in order, from example `first` on."""

    shards: tuple[ShardEntry, ...]
    first: int = 0
    step: int = 1

    @property
    def examples(self) -> int:
        """How many examples are in it."""
        total = sum(shard.examples for shard in self.shards)
        return max(total - self.first + self.step - 1, 0) // self.step


@dataclass(frozen=True, slots=True)
class Columns:
    """Features as a model wants them: its inputs, and the labels, () if there is none."""

    inputs: Features
    labels: Features = ()

    @property
    def all(self) -> Features:
        """Inputs and labels, each once."""
        return (*self.inputs, *(label for label in self.labels if label not in self.inputs))


def find_split(manifest: Manifest, name: str) -> SplitEntry:
    """The split called `name`.

    Raises:
      UserError: there is none; the message names those there are.
    """
    try:
        return manifest.split(name)
    except KeyError as error:
        raise UserError(error.args[0]) from None


def part_of(split: SplitEntry, num_workers: int, worker_index: int) -> Part:
    """The part of a split that worker `worker_index` of `num_workers` reads; the parts are disjoint and together
    everything.

    Every num_workers-th shard, or, with a warning, every num_workers-th example where there are fewer shards than that:
    each worker then reads all shards.

    Raises:
      UserError: there is no such worker.
    """
    if num_workers < 1:
        raise UserError(f"num_workers is {num_workers}; expected at least 1")
    if not 0 <= worker_index < num_workers:
        raise UserError(
            f"worker_index is {worker_index}; expected 0 to {num_workers - 1}, for num_workers is {num_workers}"
        )
    if num_workers <= len(split.shards):
        return Part(split.shards[worker_index::num_workers])
    if split.examples:
        warnings.warn(
            f"split {split.name!r} has {len(split.shards)} shards for {num_workers} workers: each reads all of them and"
            f" keeps one of {num_workers} examples; with --num_shards {num_workers} or more, each would read its own",
            stacklevel=3,
        )
    return Part(split.shards, worker_index, num_workers)


def find_features(manifest: Manifest, names: Sequence[str]) -> Features:
    """The features called `names`, in that order.

    Raises:
      UserError: there is none of a name; the message names those there are.
    """
    known = {feature.name: feature for feature in manifest.features}
    for name in names:
        if name not in known:
            raise UserError(f"{manifest.name} has no feature {name!r}; it has {', '.join(known)}")
    return tuple(known[name] for name in names)


def labels_of(manifest: Manifest) -> Features:
    """The features that the data set was built to predict."""
    return tuple(feature for feature in manifest.features if feature.role == "label")


def supervised_of(manifest: Manifest) -> tuple[str, str] | None:
    """Input and target of TFDS's `as_supervised=True`, if there are such; of several labels that is the first, and of
    two languages one and the other."""
    label = next(iter(labels_of(manifest)), None)
    if label is not None:
        return supervised_keys(manifest.features, label.name)
    languages = languages_of(manifest.configuration)
    return (languages[0], languages[1]) if len(languages) == 2 else None


def choose_columns(
    manifest: Manifest, names: Sequence[str] | None, label: str | Sequence[str] | None, supervised: bool
) -> Columns:
    """Inputs and labels.

    Args:
      names: the inputs; None for all features but the label and those that shardmill added itself: `filename`,
        `height`, `width`, `line_number`.
      label: its name, or those of several; None for those the data set was built with.
      supervised: whether there is to be a label at all.

    Raises:
      UserError: an unknown name, or no inputs; the message names the features there are.
    """
    found: Features = ()
    if supervised:
        given = [label] if isinstance(label, str) else label
        found = find_features(manifest, given) if given is not None else labels_of(manifest)
    elif label is not None:
        raise UserError(f"label={label!r} makes no sense with supervised=False, which asks for no label")
    if isinstance(names, str):
        raise UserError(f"features={names!r} is one string; expected a list of names: [{names!r}]")
    if names is not None:
        inputs = find_features(manifest, names)
    else:
        inputs = tuple(feature for feature in manifest.features if feature not in found and feature.role != "source")
    if not inputs:
        raise UserError(
            f"{manifest.name} has no input beside the label {', '.join(repr(label.name) for label in found) or None};"
            " give features=[…]"
        )
    return Columns(inputs, found)
