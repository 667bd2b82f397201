"""Parse serialized examples to tensors of features."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from shardmill.data.features import Feature, Features, find_feature
from shardmill.data.kinds import kind_of
from shardmill.errors import UserError
from shardmill.installed import tf
from shardmill.quality.stats_file import FeatureSummary
from shardmill.reading.dataset import Columns, Dataset
from shardmill.reading.tensor_specs import Tensors, TransformGraph, shape_values, to_spec


def multi_hot(ids: Any, classes: int) -> Any:
    """Encode a batch of lists of ids, a ragged tensor (batch, None), as float32 (batch, classes): 1 for each class in a
    list, however often.

    Raises:
        tf.errors.InvalidArgumentError: at run time, if an id is below 0 or not below `classes`.
    """
    places = tf.stack([ids.value_rowids(), tf.cast(ids.flat_values, tf.int64)], axis=1)
    empty = tf.zeros(tf.stack([ids.nrows(), tf.constant(classes, tf.int64)]))
    with tf.control_dependencies(
        [
            tf.debugging.assert_non_negative(places, "multi_hot: an id of a class is below 0"),
            tf.debugging.assert_less(places[:, 1], tf.constant(classes, tf.int64), "multi_hot: an id is of no class"),
        ]
    ):
        found = tf.tensor_scatter_nd_max(empty, places, tf.ones_like(places[:, 1], tf.float32))
    return tf.ensure_shape(found, (None, classes))


def multi_hot_classes(features: Features, option: bool | int) -> dict[str, int]:
    """Return the number of classes of each list of class ids, and of other integers if `option` is a number."""
    if option is False:
        return {}
    lists = [item for item in features if item.shape == (None,) and item.dtype == "int64" and not item.sequence]
    found = {item.name: len(item.class_names) for item in lists if item.kind == "class_label"}
    unnamed = [item.name for item in lists if item.kind != "class_label"]
    if unnamed and not isinstance(option, bool):
        if option < 1:
            raise UserError(f"multi_hot is {option}; expected True, or a number of classes")
        found |= dict.fromkeys(unnamed, int(option))
    if found:
        return found
    if lists:
        raise UserError(
            f"multi_hot: {lists[0].name!r} is a list of integers whose classes nobody named; give their number,"
            " multi_hot=10"
        )
    names = ", ".join(item.name for item in features)
    raise UserError(f"multi_hot is for lists of classes, and none of what is read is one: {names}")


@dataclass(frozen=True, slots=True)
class Assembler:
    """Converter of serialized examples to features or (features, label)."""

    columns: Columns  # inputs and labels
    defaults: Mapping[str, Any]  # by name, from check_defaults
    decoders: Mapping[str, Callable[[Any], Any]]  # of images and masks, by name
    pad: bool  # pad lists of any length with their default or else 0, "" or (for class ids) -1
    graph: TransformGraph | None = None  # transform graph whose outputs are the columns; None if not transformed
    # number of classes of multi-hot encoded lists of ids, by name
    multi_hot: Mapping[str, int] = field(default_factory=dict)

    @property
    def variable(self) -> list[str]:
        """Return the names of columns that are lists of any length."""
        names = (feature.name for feature in self.columns.all_features if kind_of(feature).is_variable(feature))
        return [name for name in names if name not in self.multi_hot]

    @property
    def is_single(self) -> bool:
        """Return True if there are images or other files, which are decoded one by one."""
        return bool(self.decoders) or any(
            kind_of(feature).example_decoder(feature) for feature in self.columns.all_features
        )

    def parse(self, records: Any) -> Tensors:
        """Parse a batch of serialized examples; arrays are decoded, and lists of any length are ragged."""
        if self.graph is not None:
            values = self.graph(records, self.columns.all_features, self.defaults)
        else:
            parsed = tf.io.parse_example(records, to_spec(self.columns.all_features, self.defaults, ragged=True))
            values = shape_values(self.columns.all_features, parsed)
        hot = {name: multi_hot(values[name], classes) for name, classes in self.multi_hot.items()}
        return {**values, **hot}

    def batch(self, records: Any) -> Any:
        """Return a batch of serialized examples without images as model input."""
        return self._pad_lists(self._make_structure(self.parse(records)))

    def example(self, values: Tensors) -> Any:
        """Return one parsed example as model input, with images decoded."""
        decoded = dict(values)
        for feature in self.columns.all_features:
            if feature.name in self.decoders:  # which the reader's options make
                decoded[feature.name] = self.decoders[feature.name](values[feature.name])
            elif decode := kind_of(feature).example_decoder(feature):
                decoded[feature.name] = decode(values[feature.name])
            elif None in feature.shape:
                # A ragged tensor of no ragged dimension
                decoded[feature.name] = tf.convert_to_tensor(values[feature.name])
        return self._make_structure(decoded)

    def rebatch(self, examples: Any, batch_size: int, drop_remainder: bool) -> Any:
        """Batch a dataset of single examples."""
        if not self.variable:
            return examples.batch(batch_size, drop_remainder)
        batches = examples.ragged_batch(batch_size, drop_remainder)
        return batches.map(lambda *parts: self._pad_lists(_as_element(parts))) if self.pad else batches

    def augment(self, examples: Any, function: Callable[..., Any], seed: int | None, calls: int) -> Any:
        """Return a dataset with `function` applied to the features of `examples`; a function of two parameters also
        gets a seed.

        Masks that are labels are included in these features, so that they are cropped with their image.
        """
        masks = [label.name for label in self.columns.labels if label.kind == "mask"]
        has_one_label = len(self.columns.labels) == 1

        def change(example: Any, *seeds: Any) -> Any:
            if not self.columns.labels:
                return function(example, *seeds)
            features, label = example
            if not masks:
                return function(features, *seeds), label
            several = features if isinstance(features, Mapping) else {self.columns.inputs[0].name: features}
            given = {masks[0]: label} if has_one_label else {name: label[name] for name in masks}
            augmented = dict(function({**several, **given}, *seeds))
            if missing := [name for name in masks if name not in augmented]:
                raise UserError(f"augment returned no {missing[0]!r}, the mask that it was given with the image")
            changed = {name: augmented.pop(name) for name in masks}
            inputs = augmented if isinstance(features, Mapping) else augmented[self.columns.inputs[0].name]
            return inputs, changed[masks[0]] if has_one_label else {**label, **changed}

        if not _takes_seed(function):
            return examples.map(lambda *parts: change(_as_element(parts)), calls)
        seeds = tf.data.Dataset.random(seed, rerandomize_each_iteration=True).batch(2, drop_remainder=True)
        return tf.data.Dataset.zip(examples, seeds).map(change, calls)

    def _make_structure(self, values: Tensors) -> Any:
        inputs = {feature.name: values[feature.name] for feature in self.columns.inputs}
        features = inputs if len(inputs) > 1 else next(iter(inputs.values()))
        labels = {label.name: values[label.name] for label in self.columns.labels}
        if not labels:
            return features
        return features, labels if len(labels) > 1 else next(iter(labels.values()))

    def _pad_lists(self, structure: Any) -> Any:
        if not self.pad:
            return structure
        if not self.columns.labels:
            return self._fill_missing(structure, self.columns.inputs)
        features, label = structure
        return self._fill_missing(features, self.columns.inputs), self._fill_missing(label, self.columns.labels)

    def _fill_missing(self, values: Any, features: Features) -> Any:
        if isinstance(values, Mapping):
            return {name: self._fill(name, value) for name, value in values.items()}  # augment may have other names
        return self._fill(features[0].name, values)

    def _fill(self, name: str, value: Any) -> Any:
        if not isinstance(value, tf.RaggedTensor):
            return value
        padding = next(kind_of(item).padding_value for item in self.columns.all_features if item.name == name)
        return value.to_tensor(self.defaults.get(name, padding))


def _as_element(parts: tuple[Any, ...]) -> Any:
    return parts if len(parts) > 1 else parts[0]


def _takes_seed(function: Callable[..., Any]) -> bool:
    """Return True if `function` has two parameters without a default; False if its signature is unknown."""
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


ImageDType = Literal["float32", "uint8"]
Size = tuple[int, int]  # height, width

# For each pixel wanted: up to here, making floats of all costs less than it saves (224 x 224 of 448 x 448)
_FEW_PIXELS = 4
_FRACTIONS = (2, 4, 8)  # of libjpeg, besides 1
_TYPICAL_SIZE = (512, 512)  # pixels: what a buffer to shuffle in is sized by where nothing else is known


@dataclass(frozen=True, slots=True)
class ImageDecoder:
    """Decodes the bytes of one image at a time to a TensorFlow tensor."""

    dtype: ImageDType = "float32"  # `float32` for values in [0, 1], `uint8` for 0 to 255
    channels: int = 3  # 3 for RGB, 1 for grey
    resize: Size | None = None  # height and width, ignoring the aspect ratio; None to keep the size
    known_size: Size | None = None  # height and width of all images, if known to be equal
    antialias: bool = False  # average over all pixels when scaling down
    fast_jpeg: bool = False  # decode a JPEG at a fraction of its size that is at least `resize`

    def __post_init__(self) -> None:
        if self.dtype not in ("float32", "uint8"):
            raise UserError(f"image_dtype is {self.dtype!r}; expected 'float32' or 'uint8'")
        if self.channels not in (1, 3):
            raise UserError(f"channels is {self.channels!r}; expected 3 (RGB) or 1 (grey)")
        size = self.resize
        if size is not None and not (len(size) == 2 and all(isinstance(side, int) and side > 0 for side in size)):
            raise UserError(f"image_size is {size!r}; expected (height, width) in pixels")
        if self.fast_jpeg and size is None:
            raise UserError("fast_jpeg=True decodes images at about the size that they are scaled to; give image_size")

    @property
    def size_bytes(self) -> int:
        """Return the size of a decoded image, or of a typical one if unknown."""
        height, width = self.resize or self.known_size or _TYPICAL_SIZE
        return height * width * self.channels * (4 if self.dtype == "float32" else 1)

    def __call__(self, data: Any) -> Any:
        """Decode a scalar string tensor to an image (height, width, channels) of `dtype`."""
        if self.resize is None or self.resize == self.known_size:
            image = self._decode(data)
            return tf.image.convert_image_dtype(image, tf.float32) if self.dtype == "float32" else image
        if self.fast_jpeg:
            shape = tf.cond(tf.io.is_jpeg(data), lambda: tf.io.extract_jpeg_shape(data), lambda: tf.zeros(3, tf.int32))
            most = tf.reduce_min(shape[:2] // self.resize)
            branches = [lambda: self._scale(self._decode(data))]
            branches += [partial(self._decode_fraction, data, shape, fraction) for fraction in _FRACTIONS]
            image = tf.switch_case(tf.reduce_sum(tf.cast(most >= _FRACTIONS, tf.int32)), branches)
        else:
            image = self._scale(self._decode(data))
        return image / 255.0 if self.dtype == "float32" else tf.cast(tf.round(image), tf.uint8)

    def _decode(self, data: Any) -> Any:
        image = tf.io.decode_image(data, channels=self.channels, expand_animations=False)
        image.set_shape((*(self.known_size or (None, None)), self.channels))
        return image

    def _decode_fraction(self, data: Any, shape: Any, fraction: int) -> Any:
        """Decode a JPEG of `shape` at 1/`fraction` of its size, and scale it to float32 from 0 to 255."""
        assert self.resize is not None
        image = tf.io.decode_jpeg(data, self.channels, ratio=fraction)
        if not self.antialias:
            return self._scale(image)
        # The op of tf.image.resize, which would scale what the last row and column have beyond the picture with it
        scale = tf.cast(self.resize, tf.float32) * fraction / tf.cast(shape[:2], tf.float32)
        scaled = tf.raw_ops.ScaleAndTranslate(
            images=image[None], size=self.resize, scale=scale, translation=tf.zeros(2), kernel_type="triangle"
        )
        return tf.ensure_shape(scaled[0], (*self.resize, self.channels))

    def mask(self, data: Any, dtype: str = "uint8") -> Any:
        """Decode a scalar string tensor to a mask (height, width, 1) of `dtype`, scaled by the nearest pixel."""
        mask = tf.io.decode_png(data, channels=1, dtype=dtype)
        mask.set_shape((*(self.known_size or (None, None)), 1))
        if self.resize is not None and self.resize != self.known_size:
            mask = tf.image.resize(mask, self.resize, tf.image.ResizeMethod.NEAREST_NEIGHBOR)
        return mask

    def _scale(self, image: Any) -> Any:
        """Scale a uint8 image to float32 from 0 to 255.

        TensorFlow scales floats a third faster than bytes, to the same values. For a large image this would convert all
        pixels to floats, although few are used.
        """
        assert self.resize is not None
        size, few = self.resize, _FEW_PIXELS * self.resize[0] * self.resize[1]

        def as_floats() -> Any:
            return tf.image.resize(tf.cast(image, tf.float32), size)

        def as_bytes() -> Any:
            return tf.image.resize(image, size, antialias=self.antialias)

        if self.antialias:
            return as_bytes()
        if self.known_size is not None:
            return as_floats() if self.known_size[0] * self.known_size[1] <= few else as_bytes()
        return tf.cond(tf.size(image) <= few * self.channels, as_floats, as_bytes)


def common_image_size(dataset: Dataset, splits: Sequence[str]) -> tuple[Size | None, str]:
    """Return height and width of all images of splits if their statistics show that they are equal; else None and an
    explanation.

    Raise a CorruptDataError if the statistics differ from what was written.
    """
    # What the input calls height need not be the image's
    added = [feature for feature in dataset.manifest.features if feature.role == "source"]
    names = [feature.name for feature in (find_feature(added, side) for side in ("height", "width")) if feature]
    if len(names) != 2:
        return None, "their sizes are not known"
    try:
        stats = dataset.stats().splits
    except FileNotFoundError:
        return None, "their sizes are not known, for there is no stats.json"
    sides = []
    for name in names:
        found = [stats[split].features.get(name, FeatureSummary()).numbers for split in splits if split in stats]
        ends = [end for numbers in found if numbers is not None for end in (numbers.minimum, numbers.maximum)]
        integral_ends = [end for end in ends if isinstance(end, int)]
        if not ends or len(integral_ends) != 2 * len(splits):  # records made elsewhere, or a split without examples
            return None, "their sizes are not known"
        sides.append((min(integral_ends), max(integral_ends)))
    (lowest, highest), (narrowest, widest) = sides
    if (lowest, narrowest) == (highest, widest):
        return (lowest, narrowest), ""
    return None, f"their heights are {lowest} to {highest}, their widths {narrowest} to {widest}"


def other_image_size(dataset: Dataset, feature: Feature) -> tuple[Size | None, str]:
    """Return height and width of a further image feature if all were resized, for statistics lack it; else why not."""
    resized = dataset.manifest.configuration.get("resize")
    if isinstance(resized, list) and len(resized) == 2 and all(isinstance(side, int) for side in resized):
        return (resized[1], resized[0]), ""
    return None, f"the sizes of {feature.name!r} are not known"
