"""Load a dataset as a tf.data.Dataset."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import Any

from shardmill.data.features import Feature, features_of_kind
from shardmill.errors import CorruptDataError, UserError
from shardmill.filesystem import Files, LocalFiles, Paths
from shardmill.installed import tf
from shardmill.metadata.manifest import ShardEntry
from shardmill.reading.dataset import (
    Columns,
    Dataset,
    check_content,
    check_contents,
    check_sizes,
    choose_columns,
    has_tensorflow_files,
    open_for_reading,
    read_shard,
)
from shardmill.reading.plain_examples import check_complete, check_defaults
from shardmill.reading.record_positions import find_offsets
from shardmill.reading.slices import Part, Selection, select_examples, select_part
from shardmill.reading.tensor_examples import (
    Assembler,
    ImageDecoder,
    ImageDType,
    Size,
    common_image_size,
    multi_hot_classes,
    other_image_size,
)
from shardmill.reading.tensor_specs import TransformGraph

_BLOCK_BYTES = 256 << 10  # of a local file: few enough for the cache and for memory that is used again


def with_shard_checks(dataset: Dataset, shards: Sequence[ShardEntry], paths: Any) -> Any:
    """Return the dataset `paths` of the shards' paths, with an error at a shard whose bytes differ from the manifest.

    An element may be a tuple of a path and other values. Each shard is read an additional time, just before it is read
    anyway. The error is a tf.errors.InvalidArgumentError that names the file, and the record if one is damaged.
    """
    unchecked = {dataset.path(shard): shard for shard in shards}

    def find_fault(path: bytes) -> bytes:
        shard = unchecked.get(path.decode())
        if shard is None:
            return b""
        try:
            check_content(dataset, shard, _BLOCK_BYTES)
        except (CorruptDataError, OSError) as error:
            return str(error).encode()
        unchecked.pop(path.decode(), None)
        return b""

    def check_sound(path: Any) -> Any:
        found = tf.numpy_function(find_fault, [path], tf.string, stateful=False)
        with tf.control_dependencies([tf.debugging.Assert(tf.equal(found, ""), [found])]):
            return tf.identity(path)

    return paths.map(lambda path, *others: (check_sound(path), *others) if others else check_sound(path))


_SHARDS_AT_ONCE = 16  # read from in turns when shuffling
_BLOCK_RECORDS = 16  # taken from a shard in its turn: a turn costs as much as some records
_READ_BYTES = 8 << 20  # a request; the guides' choice for object stores, and of no harm on a disk
_BUFFER_EXAMPLES = 10_000  # to shuffle among, of small ones
_BUFFER_BYTES = 256 << 20  # and of large ones, about


@dataclass(frozen=True, slots=True)
class EpochOptions:
    """The options of shardmill.load that concern epochs: `cache`, `shuffle` and `repeat`."""

    shuffle: bool
    buffer_size: int | None
    seed: int
    repeat: bool | int
    cache: bool | str

    def apply(self, examples: Any, count: int, example_bytes: float) -> Any:
        """Cache, shuffle and repeat examples: this order reshuffles cached ones, and never mixes two epochs."""
        if self.cache:
            examples = examples.cache("" if self.cache is True else self.cache)
        if self.shuffle:
            size = self.buffer_size or min(_BUFFER_EXAMPLES, int(_BUFFER_BYTES / max(example_bytes, 1)))
            examples = examples.shuffle(max(min(size, count), 1), self.seed)
        if self.repeat:
            examples = examples.repeat(None if self.repeat is True else self.repeat)
        return examples

    def cardinality(self, count: int) -> int:
        """Return the cardinality of all epochs of `count` examples each."""
        return tf.data.INFINITE_CARDINALITY if self.repeat is True else count * (self.repeat or 1)


def read_part(dataset: Dataset, part: Part, shuffle: bool, seed: int, is_verified: bool) -> Any:
    """Return the serialized examples of one epoch as scalar strings; another number of them is an error at the end.

    `shuffle` reads shards in a new order each time, several interleaved. `is_verified` checks each shard against the
    manifest when it is first opened.
    """
    number = len(part.slices)
    paths = tf.constant([dataset.path(piece.shard) for piece in part.slices], tf.string, (number,))
    if not part.has_whole_shards:
        paths = (paths, _slice_bounds(dataset, part))
    paths = tf.data.Dataset.from_tensor_slices(paths)
    exactly = tf.data.experimental.assert_cardinality
    is_mixed = shuffle and part.step == 1 and number > 1
    if is_mixed:
        paths = paths.shuffle(number, seed)
    read = _make_reader(dataset, part)
    if is_verified:
        paths = with_shard_checks(dataset, part.shards, paths)

    if not is_mixed:
        total = sum(piece.examples for piece in part.slices)
        at_once = part.has_whole_shards and _is_read_by_tensorflow(dataset)
        records = (read(paths) if at_once else paths.flat_map(read)).apply(exactly(total))
        return records.shard(part.step, part.first) if part.step > 1 else records
    cycle = min(number, _SHARDS_AT_ONCE)
    calls = tf.data.AUTOTUNE if isinstance(dataset.files, LocalFiles) else cycle  # object stores make one wait
    records = paths.interleave(read, cycle, _BLOCK_RECORDS, num_parallel_calls=calls, deterministic=True)
    return records.apply(exactly(part.examples))


_DISTRIBUTED_SHARDS_AT_ONCE = 2  # a worker that took many would leave none to others


def read_distributed_part(dataset: Dataset, part: Part) -> Any:
    """Return the serialized examples of one epoch for tf.data service, which gives each worker some of the shards.

    Another number of examples in a shard is an error at its end. Shards are not shuffled: to fill a buffer, one worker
    would take them all.

    Raise a UserError if TensorFlow does not read the files: workers run no Python, which a store's client and the
    library of ArrayRecord need.
    """
    if not dataset.manifest.codec.is_read_by_tensorflow:
        raise UserError(
            f"data_service=True: {dataset.directory} has {dataset.manifest.file_format} shards, which TensorFlow does"
            " not read; `shardmill reshard` writes TFRecord shards"
        )
    if not has_tensorflow_files(dataset.directory):
        scheme = dataset.directory.partition("://")[0]
        raise UserError(
            f"data_service=True: TensorFlow has no file system for {scheme}://, and workers of tf.data service do not"
            " run the store's client; import tensorflow_io first, or copy the data set to a disk or gs://"
        )

    read = _make_reader(dataset, part)

    def read_records(path: Any, bounds: Any, first: Any) -> Any:
        records = read(path, None if part.has_whole_shards else bounds)
        records = records.apply(tf.data.experimental.assert_cardinality(bounds[3]))
        return records.shard(part.step, first) if part.step > 1 else records

    number = (len(part.slices),)
    counts = [piece.examples for piece in part.slices]
    firsts = [(part.first - before) % part.step for before in accumulate(counts[:-1], initial=0)]
    paths = tf.constant([dataset.path(piece.shard) for piece in part.slices], tf.string, number)
    starts = tf.constant(firsts[: len(counts)], tf.int64, number)
    shards = tf.data.Dataset.from_tensor_slices((paths, _slice_bounds(dataset, part), starts))
    at_once = _DISTRIBUTED_SHARDS_AT_ONCE
    return shards.interleave(read_records, at_once, _BLOCK_RECORDS, num_parallel_calls=at_once)


def _slice_bounds(dataset: Dataset, part: Part) -> Any:
    """Return int64 (slices, 4): the byte and the record to read from, examples to skip there, and examples to take."""
    offsets = find_offsets(dataset, part.slices)
    rows = [
        (offsets[piece], piece.start, 0, piece.examples) if piece in offsets else (0, 0, piece.start, piece.examples)
        for piece in part.slices
    ]
    return tf.constant(rows, tf.int64, (len(rows), 4))


def _make_reader(dataset: Dataset, part: Part) -> Callable[..., Any]:
    """Return the function from the path of a shard, or from a dataset of paths that TensorFlow reads, to its examples.

    It also takes the `_slice_bounds` of one slice, of which it reads the examples. In files that TensorFlow does not
    read, every checksum is verified.
    """
    shards = {dataset.path(shard): shard for shard in part.shards}

    def read(path: bytes, record: int, offset: int) -> Iterator[list[bytes]]:
        return map(list, read_shard(dataset, shards[path.decode()], int(record), int(offset)))

    def generate(path: Any, record: Any, offset: Any) -> Any:
        signature = tf.TensorSpec((None,), tf.string)
        return tf.data.Dataset.from_generator(read, output_signature=signature, args=(path, record, offset)).unbatch()

    has_files, keeps_offsets = _is_read_by_tensorflow(dataset), dataset.manifest.codec.keeps_offsets

    def make(paths: Any, bounds: Any = None) -> Any:
        if bounds is None:
            return dataset.manifest.codec.tensors(paths, _READ_BYTES) if has_files else generate(paths, 0, 0)
        # Not tf.unstack, with which TensorFlow 2.21 crashes here
        offset, record, start, count = (bounds[column] for column in range(4))
        if has_files:
            records = dataset.manifest.codec.tensors(paths, _READ_BYTES, offset if keeps_offsets else None)
        else:
            records = generate(paths, record, offset)
        return records.skip(start).take(count)

    return make


def _is_read_by_tensorflow(dataset: Dataset) -> bool:
    return dataset.manifest.codec.is_read_by_tensorflow and has_tensorflow_files(dataset.directory)


_PARSED_AT_ONCE = 32  # where batches of the caller's size cannot be: the examples are taken apart again to be decoded


def load(
    directory: Paths,
    split: str = "train",
    batch_size: int | None = None,
    image_size: Size | None = None,
    *,
    image_dtype: ImageDType = "float32",
    channels: int = 3,
    antialias: bool = False,
    fast_jpeg: bool = False,
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
    equal_parts: bool = False,
    data_service: bool = False,
    num_parallel_calls: int | None = None,
    prefetch_buffer_size: int | None = None,
    verify: bool | None = None,
    version: str | None = None,
    sha256: str | None = None,
    files: Files | None = None,
    transform: bool = False,
) -> Any:
    """Read a split as a `tf.data.Dataset` of (features, label) pairs, which `model.fit` accepts directly.

    ```python
    train = shardmill.load("datasets/flowers", split="train", batch_size=32, image_size=(224, 224))
    validation = shardmill.load("datasets/flowers", split="validation", batch_size=32, image_size=(224, 224))
    model.fit(train, validation_data=validation, epochs=5)
    ```

    A single input is a tensor; several are a dictionary by name. Without a label, an element consists of the features
    only. Values are tensors of these types:

    * class labels and booleans: int64; text: tf.string
    * values of several dimensions: the feature's shape; any number of boxes: a ragged tensor (batch, None, 4)
    * an array: its own shape and type, never scaled
    * audio: float32 samples (frames,) or (frames, channels), ragged
    * masks: uint8 or uint16 (height, width, 1); they are labels unless `label` names others

    The dataset's cardinality is known, except with `data_service`. It ends with an error if it yields fewer examples
    than the manifest lists. It also does at a shard that differs from what was written, see `verify`.

    Args:
        directory: folder of a version, or its parent, whose LATEST names a version; local, gs://, s3://, az:// or
            another scheme that tf.io.gfile reads.
        split: name of the split, or slices of splits in TFDS's syntax: `train[:10%]`, `train[1000:2000]`, `train+test`.
        batch_size: examples in a batch; None for single examples.
        image_size: (height, width) to which images are scaled bilinearly, ignoring their aspect ratio, and masks with
            them, by the nearest pixel. TensorFlow ignores EXIF orientation and transparency; `--image_format` applies
            both.
        image_dtype: `float32` for values in [0, 1], `uint8` for 0 to 255: a quarter of the memory.
        channels: 3 for RGB, 1 for grey.
        antialias: average over all pixels when scaling down, at two to three times the cost; tf.image.resize and Keras
            do not.
        fast_jpeg: decode a JPEG at 1/2, 1/4 or 1/8 of its height and width, if that is at least `image_size`, and scale
            the result. Pixels then differ by about 1 to 3 of 255 on average with `antialias`, else by up to 15.
        features: names of the inputs; None for all except the label and those that shardmill added to describe the
            source: `filename`, `height`, `width`, `line_number`.
        label: name of the label; None for the one that `--label` declared, or else the feature `label`. Several labels
            are a dictionary by name, which Keras accepts for a model with as many outputs.
        supervised: yield pairs. If False, the label is one of the features.
        defaults: values that replace missing ones, by feature name. Every feature that some examples lack needs one,
            except lists of any length, which are then empty; for these it is the padding of `pad`.
        pad: pad lists of any length to the longest in their batch, with 0 or "", instead of yielding ragged tensors.
        multi_hot: encode a list of classes as float32 (number of classes,), 1 for each class of the example, instead of
            ragged ids. Pass the number of classes for lists of integers without class names.
        augment: a function from one example's features to its features, called before batching as `augment(features)`
            or `augment(features, seed)`, with a seed for tf.image.stateless_*, int64 (2,). Masks are among the features
            even if they are labels, so that they are cropped with their image.
        shuffle: None for on in a split called `train`, or slices of it, and off in others. If on, each epoch reads the
            shards in a new order and draws examples from a buffer.
        shuffle_buffer_size: in examples; None for 10,000, or as many as 256 MiB hold, and never more than there are. It
            need not be large: shards are shuffled globally when they are written.
        seed: of the order and of `augment`; each epoch has another order. None for random seeds of `augment`, and an
            order that follows from the manifest. All processes of a distributed training then have the same order,
            which tf.data divides among them.
        repeat: True for endless, or the number of epochs. Keras needs neither.
        drop_remainder: drop a last, smaller batch.
        cache: True to cache in memory, or the path of a cache file, from the first epoch on: images decoded and scaled,
            other examples as stored. The file's name gets a suffix for the version, the split and the options. All
            epochs then have the shard order of the first.
        num_workers: number of trainers that share the split; each example is read by exactly one of them.
        worker_index: index of this trainer, from 0.
        equal_parts: divide examples among trainers instead of shards: their parts differ by one example at most, but
            each trainer reads all shards. By default, a part is every num_workers-th shard, and a warning says so if
            the parts differ by more than a tenth.
        data_service: True for a dataset that tf.data service distributes, in any processing mode. Its cardinality is
            unknown, the number of examples is checked shard by shard, `verify=None` means False, and `cache` is
            refused: call `cache` on the distributed dataset. Without it, `distributed_epoch` ends with "expected to
            contain 408 elements but contained only 0".
        num_parallel_calls: threads that parse and decode; None for the number of cores.
        prefetch_buffer_size: batches to prefetch; None lets tf.data tune it.
        verify: when to compare each shard's checksum with the manifest's. None: for local files, when a shard is first
            opened; the dataset then ends with a `tf.errors.InvalidArgumentError` that names file and record. True: for
            all files, before this function returns. False: never, as in tf.data service, whose workers cannot call
            Python; a damaged record is then a `tf.errors.DataLossError`, as it is in remote files with None.
        version: a version or tag in the parent folder; None for the version in LATEST.
        sha256: SHA-256 of the manifest, which `shardmill verify` prints; another manifest is an error. None for any.
        files: the files to read the manifest through; None to choose them by `directory`.
        transform: apply the dataset's transform graph to each batch. `features`, `label` and `defaults` then name its
            outputs.

    Raises:
        UserError: if the dataset, split, feature or worker does not exist; if a feature that some examples lack has no
            default; if images of one batch differ in size; or if an option has no effect.
        CorruptDataError: if the manifest is unreadable or of a newer format, a shard is missing or has another size,
            or, with verify=True, differs from what was written.
    """
    dataset = open_for_reading(directory, files, version, sha256)
    graph = TransformGraph(dataset) if transform else None
    manifest = dataset.manifest if graph is None else graph.manifest
    selection = select_examples(manifest, split)
    part = select_part(selection, num_workers, worker_index, equal_parts)
    columns = choose_columns(manifest, features, label, supervised)
    fills = check_defaults(columns.all_features, defaults or {}, manifest.features)
    decoders = _make_decoders(
        dataset,
        columns,
        selection,
        batch_size,
        ImageDecoder(image_dtype, channels, image_size, None, antialias, fast_jpeg),
    )
    check_complete(columns.all_features, fills)
    assembler = Assembler(
        columns,
        fills,
        {
            feature.name: partial(decoder.mask, dtype=feature.element or "uint8") if feature.kind == "mask" else decoder
            for feature, decoder in decoders
        },
        pad,
        graph,
        multi_hot_classes(columns.all_features, multi_hot),
    )
    shuffle = selection.splits == ("train",) if shuffle is None else shuffle
    order_seed = int(dataset.manifest_crc32c, 16) if seed is None else seed
    if isinstance(cache, str):  # a file that holds other examples would be read as if it held these
        order = (dataset.manifest_crc32c, split, part.first, part.step, part.slices, shuffle, order_seed)
        decoded = (columns, decoders, fills, pad, assembler.multi_hot, transform, tf.__version__)  # which decodes
        cache = f"{cache}-{hashlib.sha256(repr((order, decoded)).encode()).hexdigest()[:16]}"
    epochs = EpochOptions(shuffle, shuffle_buffer_size, order_seed, repeat, cache)
    _check_options(assembler, epochs, batch_size, drop_remainder)
    if data_service and cache:
        raise UserError(
            "cache makes no sense with data_service=True: each worker of the service would keep its own part only; call"
            " cache() on the distributed dataset"
        )
    check_sizes(dataset, part.shards)
    if verify:
        check_contents(dataset, part.shards)

    calls = tf.data.AUTOTUNE if num_parallel_calls is None else num_parallel_calls
    if data_service:
        records = read_distributed_part(dataset, part)
    else:
        is_verified = verify is None and isinstance(dataset.files, LocalFiles)
        records = read_part(dataset, part, shuffle, order_seed, is_verified)
    # Cached after decoding, which it then saves; anything but images is smaller as it is stored, and parsed fast.
    decodes_after_cache = bool(cache) and bool(decoders)
    if not decodes_after_cache:
        records = epochs.apply(records, part.examples, part.mean_example_bytes)
    if batch_size is not None and not assembler.is_single and augment is None:
        examples = records.batch(batch_size, drop_remainder).map(assembler.batch, calls)
    else:
        parsed = records.batch(_PARSED_AT_ONCE).map(assembler.parse, calls).unbatch()
        if not data_service:
            total = part.examples if decodes_after_cache else epochs.cardinality(part.examples)
            parsed = parsed.apply(tf.data.experimental.assert_cardinality(total))
        examples = parsed.map(assembler.example, calls)
        if decodes_after_cache:
            examples = epochs.apply(examples, part.examples, sum(decoder.size_bytes for _, decoder in decoders))
        if augment is not None:
            examples = assembler.augment(examples, augment, seed, calls)
        if batch_size is not None:
            examples = assembler.rebatch(examples, batch_size, drop_remainder)
    examples = examples.prefetch(tf.data.AUTOTUNE if prefetch_buffer_size is None else prefetch_buffer_size)
    return examples.with_options(_make_options(is_single_worker=num_workers == 1))


def _make_decoders(
    dataset: Dataset, columns: Columns, selection: Selection, batch_size: int | None, wanted: ImageDecoder
) -> list[tuple[Feature, ImageDecoder]]:
    """Return each image and mask to read with its decoder: `wanted`, with the size of the images if known."""
    pictures = [feature for feature in columns.all_features if feature.kind in ("image", "mask")]
    if not pictures:
        if wanted != ImageDecoder():
            names = ", ".join(feature.name for feature in columns.all_features)
            message = (
                f"image_size, image_dtype, channels, antialias and fast_jpeg are for images, and"
                f" {dataset.manifest.name} is read without any; its features here are {names}"
            )
            if arrays := features_of_kind(columns.all_features, "array"):
                message += f", of which {arrays[0].name} is an array, given as it was stored; scale it with augment"
            raise UserError(message)
        return []
    known, sizes = common_image_size(dataset, selection.splits)
    decoders = []
    for feature in pictures:
        of_feature, what = known, sizes
        if feature.kind == "image" and feature != features_of_kind(dataset.manifest.features, "image")[0]:
            of_feature, what = other_image_size(dataset, feature)
        if batch_size is not None and of_feature is None and wanted.resize is None:
            raise UserError(
                f"the images of split {selection.text!r} cannot be batched: {what}; give image_size=(height, width)"
            )
        decoders.append((feature, replace(wanted, known_size=of_feature)))
    return decoders


def _check_options(assembler: Assembler, epochs: EpochOptions, batch_size: int | None, drop_remainder: bool) -> None:
    """Check that each option has an effect and is in range; raise UserError otherwise."""
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


def _make_options(is_single_worker: bool) -> Any:
    """Return tf.data's options; it must not divide workers' parts among them once more."""
    options = tf.data.Options()
    options.deterministic = True  # else processes that share the examples have different orders
    # Left on, tf.data's tuner delays the end of an epoch now and then: closing the iterator waits for the
    # tuner's thread, which sleeps for 10 ms, 20 ms and so on up to a minute and may miss that; seen at 10.2, 20.5 and
    # 81.9 seconds with TensorFlow 2.21. Without it, AUTOTUNE means the number of cores, which measured as fast.
    options.autotune.enabled = False
    policy = tf.data.experimental.AutoShardPolicy
    # By file would leave fewer examples than are counted on.
    options.experimental_distribute.auto_shard_policy = policy.DATA if is_single_worker else policy.OFF
    return options
