"""Serialized examples to what a model is given: a batch parsed at a time, images decoded singly, inputs apart from the
label."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shardmill.errors import UserError
from shardmill.features.feature import Features
from shardmill.installation.lazy_tensorflow import tf
from shardmill.kinds.registry import kind_of
from shardmill.reading.selection import Columns
from shardmill.tensors.multi_hot import multi_hot
from shardmill.tensors.parsing_spec import to_spec
from shardmill.tensors.shapes import Tensors, shape_values
from shardmill.tensors.transform import TransformGraph


@dataclass(frozen=True, slots=True)
class Assembler:
    """Turns serialized examples into features or (features, label).

    Attributes:
      columns: what is read.
      defaults: what stands for a missing value, by name, as check_defaults has it.
      decoders: of each image and each mask; none where there are none.
      pad: whether lists of any length are filled up, with their default or else 0 or "", ids of
        classes with -1.
      graph: what examples are put through, whose outputs the columns are; None where they stay as they are.
      multi_hot: how many classes those lists of ids may have that are given as zeros and ones, by name.
    """

    columns: Columns
    defaults: Mapping[str, Any]
    decoders: Mapping[str, Callable[[Any], Any]]
    pad: bool
    graph: TransformGraph | None = None
    multi_hot: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_variable(self) -> bool:
        """Whether there are lists of any length."""
        return bool(self.variable)

    @property
    def variable(self) -> list[str]:
        """The lists of any length among what is given."""
        names = (feature.name for feature in self.columns.all if kind_of(feature).is_variable(feature))
        return [name for name in names if name not in self.multi_hot]

    @property
    def is_single(self) -> bool:
        """Whether there are images or other files, which are decoded one by one."""
        return bool(self.decoders) or any(kind_of(feature).single(feature) for feature in self.columns.all)

    def parse(self, records: Any) -> Tensors:
        """A batch of serialized examples, parsed; arrays are decoded, and lists of any length ragged."""
        if self.graph is not None:
            values = self.graph(records, self.columns.all, self.defaults)
        else:
            parsed = tf.io.parse_example(records, to_spec(self.columns.all, self.defaults, ragged=True))
            values = shape_values(self.columns.all, parsed)
        hot = {name: multi_hot(values[name], classes) for name, classes in self.multi_hot.items()}
        return {**values, **hot}

    def batch(self, records: Any) -> Any:
        """A batch of serialized examples without images, as a model takes it."""
        return self._padded(self._structure(self.parse(records)))

    def example(self, values: Tensors) -> Any:
        """One parsed example as a model takes it, images decoded."""
        decoded = dict(values)
        for feature in self.columns.all:
            if feature.name in self.decoders:  # which the reader's options make
                decoded[feature.name] = self.decoders[feature.name](values[feature.name])
            elif decode := kind_of(feature).single(feature):
                decoded[feature.name] = decode(values[feature.name])
            elif None in feature.shape:
                # A ragged tensor of no ragged dimension
                decoded[feature.name] = tf.convert_to_tensor(values[feature.name])
        return self._structure(decoded)

    def rebatch(self, examples: Any, batch_size: int, drop_remainder: bool) -> Any:
        """A dataset of single examples in batches."""
        if not self.is_variable:
            return examples.batch(batch_size, drop_remainder)
        batches = examples.ragged_batch(batch_size, drop_remainder)
        return batches.map(lambda *parts: self._padded(_whole(parts))) if self.pad else batches

    def augment(self, examples: Any, function: Callable[..., Any], seed: int | None, calls: int) -> Any:
        """A dataset whose features are those that `function` makes of `examples`'; with a second parameter, it gets a
        seed.

        Masks that are labels are among the features there: what crops an image crops them, too.
        """
        masks = [label.name for label in self.columns.labels if label.kind == "mask"]
        alone = len(self.columns.labels) == 1

        def change(example: Any, *seeds: Any) -> Any:
            if not self.columns.labels:
                return function(example, *seeds)
            features, label = example
            if not masks:
                return function(features, *seeds), label
            several = features if isinstance(features, Mapping) else {self.columns.inputs[0].name: features}
            given = {masks[0]: label} if alone else {name: label[name] for name in masks}
            made = dict(function({**several, **given}, *seeds))
            if missing := [name for name in masks if name not in made]:
                raise UserError(f"augment returned no {missing[0]!r}, the mask that it was given beside the image")
            changed = {name: made.pop(name) for name in masks}
            inputs = made if isinstance(features, Mapping) else made[self.columns.inputs[0].name]
            return inputs, changed[masks[0]] if alone else {**label, **changed}

        if not _takes_seed(function):
            return examples.map(lambda *parts: change(_whole(parts)), calls)
        seeds = tf.data.Dataset.random(seed, rerandomize_each_iteration=True).batch(2, drop_remainder=True)
        return tf.data.Dataset.zip(examples, seeds).map(change, calls)

    def _structure(self, values: Tensors) -> Any:
        inputs = {feature.name: values[feature.name] for feature in self.columns.inputs}
        features = inputs if len(inputs) > 1 else next(iter(inputs.values()))
        labels = {label.name: values[label.name] for label in self.columns.labels}
        if not labels:
            return features
        return features, labels if len(labels) > 1 else next(iter(labels.values()))

    def _padded(self, structure: Any) -> Any:
        if not self.pad:
            return structure
        if not self.columns.labels:
            return self._filled(structure, self.columns.inputs)
        features, label = structure
        return self._filled(features, self.columns.inputs), self._filled(label, self.columns.labels)

    def _filled(self, values: Any, features: Features) -> Any:
        if isinstance(values, Mapping):
            return {name: self._fill(name, value) for name, value in values.items()}
        return self._fill(features[0].name, values)

    def _fill(self, name: str, value: Any) -> Any:
        if not isinstance(value, tf.RaggedTensor):
            return value
        default = self.defaults.get(name)
        if default is None:
            default = next(kind_of(feature).padding for feature in self.columns.all if feature.name == name)
        return value.to_tensor(default)


def _whole(parts: tuple[Any, ...]) -> Any:
    """What tf.data passes as several arguments, a pair, or as one."""
    return parts if len(parts) > 1 else parts[0]


def _takes_seed(function: Callable[..., Any]) -> bool:
    """Whether `function` has two parameters without a default; of one that cannot be asked, no."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [item for item in parameters if item.kind in positional and item.default is inspect.Parameter.empty]
    if len(required) > 2:
        raise UserError(
            f"augment takes {len(required)} arguments; expected augment(features) or augment(features, seed)"
        )
    return len(required) == 2
