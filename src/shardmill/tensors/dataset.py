"""A split as a tf.data.Dataset, ready for Keras."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from shardmill.errors import UserError
from shardmill.features.feature import Feature, of_kind
from shardmill.filesystems.gfile import files_for
from shardmill.filesystems.local import Files, LocalFiles
from shardmill.installation.lazy_tensorflow import tf
from shardmill.reading.dataset import Dataset, open_dataset
from shardmill.reading.missing_values import check_complete, check_defaults
from shardmill.reading.selection import Columns, choose_columns, find_split, part_of
from shardmill.reading.shard_checks import check_contents, check_sizes
from shardmill.tensors.examples import Assembler
from shardmill.tensors.images import ImageDecoder, ImageDType, Size, common_size, size_of_others
from shardmill.tensors.multi_hot import classes_of
from shardmill.tensors.records import Epochs, mean_bytes, read_part
from shardmill.tensors.transform import TransformGraph

_PARSED_AT_ONCE = 32  # where batches of the caller's size cannot be: the examples are taken apart again to be decoded


def load(
    directory: str | os.PathLike[str],
    split: str = "train",
    batch_size: int | None = None,
    image_size: Size | None = None,
    *,
    image_dtype: ImageDType = "float32",
    channels: int = 3,
    antialias: bool = False,
    features: Sequence[str] | None = None,
    label: str | Sequence[str] | None = None,
    supervised: bool = True,
    defaults: Mapping[str, Any] | None = None,
    pad: bool = False,
    multi_hot: bool | int = False,
    augment: Callable[..., Any] | None = None,
    shuffle: bool | None = None,
    shuffle_buffer_size: int | None = None,
    seed: int | None = None,
    repeat: bool | int = False,
    drop_remainder: bool = False,
    cache: bool | str = False,
    num_workers: int = 1,
    worker_index: int = 0,
    num_parallel_calls: int | None = None,
    prefetch_buffer_size: int | None = None,
    verify: bool | None = None,
    version: str | None = None,
    files: Files | None = None,
    transform: bool = False,
) -> Any:
    """Read a split as a `tf.data.Dataset` of (features, label) pairs, which `model.fit` takes as it is.

    ```python
    train = shardmill.load("datasets/flowers", split="train", batch_size=32, image_size=(224, 224))
    validation = shardmill.load("datasets/flowers", split="validation", batch_size=32, image_size=(224, 224))
    model.fit(train, validation_data=validation, epochs=5)
    ```

    One input is given bare, several are a dictionary by name. Without a label, the features stand alone. Class labels
    and booleans are int64, text is tf.string. What has several dimensions comes in its shape, any number of boxes as a
    ragged tensor (batch, None, 4), an array in its shape and type, never scaled, audio as float32 samples (frames,) or
    (frames, channels), ragged, masks as uint8 or uint16 (height, width, 1), labels unless `label` says otherwise. The
    dataset's cardinality is known, and if fewer examples come out than the manifest says, it ends with an error; so it
    does at a shard that is not what was written, see `verify`.

    Args:
      directory: of the data set's version, or the one above it, whose LATEST names one; local, gs:// or what
        tf.io.gfile reads.
      split: its name.
      batch_size: examples in a batch; None for single examples.
      image_size: (height, width) that images are scaled to, bilinearly, whatever their aspect ratio; masks with them,
        by the nearest pixel.
        TensorFlow decodes them as they are stored: it heeds no EXIF orientation, and leaves transparency out, so that
        the colour beneath shows. A data set made with `--image_format` has them upright, and laid on white.
      image_dtype: `float32` for values in [0, 1], `uint8` for 0 to 255: a quarter of the memory, for models that
        rescale.
      channels: 3 for RGB, 1 for grey.
      antialias: whether scaling down averages over all pixels, at two to three times the cost. Off, as in
        tf.image.resize and Keras, with which the images of the trained model's users will be scaled.
      features: names of the inputs; None for all but the label and what shardmill added to describe the source:
        `filename`, `height`, `width`, `line_number`.
      label: the label's name; None for that of `--label` or else the feature `label`. Several labels are a dictionary
        by name, which Keras takes for a model of as many outputs.
      supervised: whether to give pairs. Without, the label is one of the features.
      defaults: what stands for a missing value, by name. Every feature that some examples lack needs one, but for lists
        of any length, which are then empty; for these it is what `pad` fills with.
      pad: whether lists of any length are filled up to the longest of their batch, with 0 or "", instead of being
        ragged tensors.
      multi_hot: whether a label, or another feature, that is a list of classes is float32 (number of classes,), 1 for
        each class that the example has and 0 for all others, instead of ragged ids. A number is that of the classes of
        lists of integers that have no names.
      augment: a function from one example's features to its features, called before batching, `augment(features)` or
        `augment(features, seed)`; the seed, int64 (2,), differs for each example and epoch and is for
        tf.image.stateless_*. Masks are among the features that it gets and returns, also where they are labels, so
        that they are turned and cropped with their image. To change whole batches, use the dataset's `map`.
      shuffle: None for on in a split called `train` and off in others. Off, examples come in the order of shards and
        records. On, the order of the shards changes and examples go through a buffer, anew in each epoch.
      shuffle_buffer_size: in examples; None for 10,000, or as many as 256 MiB hold, and never more than there are. It
        need not be large: shards are shuffled globally when they are written.
      seed: makes the order, and the seeds of `augment`, the same in every run; a little slower. Epochs still differ.
      repeat: True for without end, or the number of epochs. Keras needs neither.
      drop_remainder: whether a last, smaller batch is dropped.
      cache: True to keep what was read in memory, or the path of a file to keep it in, from the first epoch on: decoded
        and scaled images, before `augment`; other examples as they are stored. The order of shards is then that of the
        first epoch.
      num_workers: how many trainers share the split; each example is on exactly one of them.
      worker_index: which one this is, from 0. Its part may be an example or a shard larger than another's.
      num_parallel_calls: threads that parse and decode; None for as many as there are cores.
      prefetch_buffer_size: batches to have ready; None lets tf.data tune it.
      verify: when each shard's checksum is compared with the manifest's, which finds a flipped bit, and another data
        set's shard of the same size; the error names the file, and the record if one is damaged. None: of local files,
        when a shard is first opened, which costs some tenths of a second a gigabyte in the first epoch; the dataset
        then ends with a `tf.errors.InvalidArgumentError`. True: of all files, before this returns. False: never, as
        tf.data service needs it, whose workers cannot call Python. There, and in remote files with None, a damaged
        record is a `tf.errors.DataLossError` without the file's name. Shards that are missing or have another size are
        found in any case.
      version: one of those in the directory above, or a tag; None for the one that LATEST names.
      files: what the manifest is read through; None for what `directory` says.
      transform: whether examples are put through the data set's transform graph, batch by batch. `features`, `label`
        and `defaults` name what comes out of it then.

    Raises:
      UserError: no such data set, split, feature or worker; features that some examples lack, without a default; images
        of different sizes in one batch; an option that has nothing to act on.
      CorruptDataError: the manifest cannot be read, or is of a newer format; a shard is missing or has another size;
        with verify=True, it is not what was written.
    """
    dataset = open_dataset(directory, files or files_for(directory), version)
    graph = TransformGraph(dataset) if transform else None
    manifest = dataset.manifest if graph is None else graph.manifest
    part = part_of(find_split(manifest, split), num_workers, worker_index)
    columns = choose_columns(manifest, features, label, supervised)
    fills = check_defaults(columns.all, defaults or {}, manifest.features)
    decoders = _decoders(
        dataset, columns, split, batch_size, ImageDecoder(image_dtype, channels, image_size, None, antialias)
    )
    check_complete(columns.all, fills)
    assembler = Assembler(
        columns,
        fills,
        {
            feature.name: partial(decoder.mask, dtype=feature.element or "uint8") if feature.kind == "mask" else decoder
            for feature, decoder in decoders
        },
        pad,
        graph,
        classes_of(columns.all, multi_hot),
    )
    shuffle = split == "train" if shuffle is None else shuffle
    epochs = Epochs(shuffle, shuffle_buffer_size, seed, repeat, cache)
    _check_options(assembler, epochs, batch_size, drop_remainder)
    check_sizes(dataset, part.shards)
    if verify:
        check_contents(dataset, part.shards)

    calls = tf.data.AUTOTUNE if num_parallel_calls is None else num_parallel_calls
    records = read_part(dataset, part, shuffle, seed, guarded=verify is None and isinstance(dataset.files, LocalFiles))
    # Cached after decoding, which it then saves; anything but images is smaller as it is stored, and parsed fast.
    late = bool(cache) and bool(decoders)
    if not late:
        records = epochs.apply(records, part.examples, mean_bytes(part))
    if batch_size is not None and not assembler.is_single and augment is None:
        examples = records.batch(batch_size, drop_remainder).map(assembler.batch, calls)
    else:
        parsed = records.batch(_PARSED_AT_ONCE).map(assembler.parse, calls).unbatch()
        total = part.examples if late else epochs.total(part.examples)
        examples = parsed.apply(tf.data.experimental.assert_cardinality(total)).map(assembler.example, calls)
        if late:
            examples = epochs.apply(examples, part.examples, sum(decoder.size_bytes for _, decoder in decoders))
        if augment is not None:
            examples = assembler.augment(examples, augment, seed, calls)
        if batch_size is not None:
            examples = assembler.rebatch(examples, batch_size, drop_remainder)
    examples = examples.prefetch(tf.data.AUTOTUNE if prefetch_buffer_size is None else prefetch_buffer_size)
    return examples.with_options(_options(deterministic=not shuffle or seed is not None, alone=num_workers == 1))


def _decoders(
    dataset: Dataset, columns: Columns, split: str, batch_size: int | None, wanted: ImageDecoder
) -> list[tuple[Feature, ImageDecoder]]:
    """The decoder of each image and mask that is read: `wanted` with what is known of their size."""
    pictures = [feature for feature in columns.all if feature.kind in ("image", "mask")]
    if not pictures:
        if wanted != ImageDecoder():
            names = ", ".join(feature.name for feature in columns.all)
            arrays = [feature.name for feature in of_kind(columns.all, "array")]
            raise UserError(
                f"image_size, image_dtype, channels and antialias are for images, and {dataset.manifest.name} is read"
                f" without any; its features here are {names}"
                + (
                    f", of which {arrays[0]} is an array, given as it was stored; scale it with augment"
                    if arrays
                    else ""
                )
            )
        return []
    known, sizes = common_size(dataset, split)
    decoders = []
    for feature in pictures:
        of_feature, what = known, sizes
        if feature.kind == "image" and feature != of_kind(dataset.manifest.features, "image")[0]:
            of_feature, what = size_of_others(dataset, feature)
        if batch_size is not None and of_feature is None and wanted.resize is None:
            raise UserError(f"the images of split {split!r} cannot be batched: {what}; give image_size=(height, width)")
        decoders.append((feature, replace(wanted, known=of_feature)))
    return decoders


def _check_options(assembler: Assembler, epochs: Epochs, batch_size: int | None, drop_remainder: bool) -> None:
    """Check that each option has something to act on.

    Raises:
      UserError: one has not, or is out of range.
    """
    size = epochs.buffer_size
    for name, value in (("batch_size", batch_size), ("shuffle_buffer_size", size), ("repeat", epochs.repeat or None)):
        if value is not None and value < 1:
            raise UserError(f"{name} is {value}; expected at least 1")
    if batch_size is None and (assembler.pad or drop_remainder):
        raise UserError(f"{'pad' if assembler.pad else 'drop_remainder'} is for batches; give batch_size")
    if size is not None and not epochs.shuffle:
        raise UserError(f"shuffle_buffer_size is {size}, but nothing is shuffled; give shuffle=True")
    variable = assembler.variable
    if assembler.pad and not variable:
        raise UserError("pad fills up lists of any length, and no feature that is read is one")
    if not assembler.pad and (unused := [name for name in variable if name in assembler.defaults]):
        raise UserError(
            f"defaults names {unused[0]!r}, a list of any length, which is empty where it is missing; give pad=True"
        )


def _options(deterministic: bool, alone: bool) -> Any:
    """tf.data's options: of workers that have their own parts already, none takes a part of it again."""
    options = tf.data.Options()
    options.deterministic = deterministic
    # Left on, tf.data's tuner delays the end of an epoch now and then: whoever closes the iterator waits for the
    # tuner's thread, which sleeps for 10 ms, 20 ms and so on up to a minute and may miss that; seen at 10.2, 20.5 and
    # 81.9 seconds with TensorFlow 2.21. Without it, AUTOTUNE stands for the number of cores, which measured as fast.
    options.autotune.enabled = False
    policy = tf.data.experimental.AutoShardPolicy
    # By file would leave fewer examples than are counted on.
    options.experimental_distribute.auto_shard_policy = policy.DATA if alone else policy.OFF
    return options
