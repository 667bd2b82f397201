"""The functions of commands with their options, for editors and type checkers.

Written by `python -m tests.support.typed_api`.
"""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Literal, Required, TypedDict, Unpack, overload

from shardmill.addons.nightly.rebuild_command import Rebuilt as Rebuilt
from shardmill.addons.nightly.rebuild_command import rebuild as rebuild
from shardmill.addons.nightly.retain_command import Retained as Retained
from shardmill.addons.nightly.retain_command import retain as retain
from shardmill.addons.reports.inspect_command import Inspection as Inspection
from shardmill.addons.reports.inspect_command import inspect as inspect
from shardmill.addons.reports.report_command import Comparison as Comparison
from shardmill.addons.reports.report_command import Report as Report
from shardmill.addons.reports.report_command import diff as diff
from shardmill.addons.reports.report_command import report as report
from shardmill.addons.view.view_command import View as View
from shardmill.addons.view.view_command import view as view
from shardmill.pipelines.commands.convert import Plan as Plan
from shardmill.pipelines.commands.index import Indexed as Indexed
from shardmill.pipelines.commands.index import index as index
from shardmill.pipelines.commands.verify import Verification as Verification
from shardmill.pipelines.commands.verify import verify as verify
from shardmill.pipelines.commands.versions import Accepted as Accepted
from shardmill.pipelines.commands.versions import RolledBack as RolledBack
from shardmill.pipelines.commands.versions import Tagged as Tagged
from shardmill.pipelines.commands.versions import VersionRow as VersionRow
from shardmill.pipelines.commands.versions import Versions as Versions
from shardmill.pipelines.commands.versions import accept as accept
from shardmill.pipelines.commands.versions import rollback as rollback
from shardmill.pipelines.commands.versions import tag as tag
from shardmill.pipelines.commands.versions import versions as versions
from shardmill.pipelines.jobs.outcome import Published as Published

_Path = str | PathLike[str]
_Item = str | int | float | PathLike[str] | None
_Value = _Item | Sequence[_Item] | Mapping[str, _Item]
_Function = _Path | Callable[..., object]

class _Options(TypedDict, total=False):
    splits: _Value
    group_by: str
    stratify_by: str
    seed: int
    split_seed: int
    shard_size: _Value
    num_shards: _Value
    balance: Literal["examples", "bytes", "tokens"]
    file_format: Literal["tfrecord", "array_record"]
    compression: Literal["none", "gzip"]
    file_template: str
    index: bool
    map: _Function
    map_batches: _Function
    rename: _Value
    labels_file: _Value
    on_new_label: Literal["fail", "append", "reject"]
    output: Required[_Path]
    name: Required[str]
    version: str
    overwrite: bool
    set_latest: bool
    allow_future: bool
    max_reject_fraction: float
    threads: int
    workers: _Value

class _ImagesOptions(_Options, total=False):
    reuse: _Value
    no_shuffle: bool
    folders: _Value
    exclude: _Value
    on_damaged_file: Literal["fail", "reject"]
    input: _Value
    transform: _Value
    analyze_splits: _Value
    transform_graph: _Value
    delimiter: _Value
    quote: _Value
    columns: _Value
    header: Literal["auto", "first", "none"]
    skip_lines: int
    comment: str
    encoding: str
    missing: _Value
    escape: _Value
    decimal: Literal[".", ","]
    thousands: Literal[",", ".", " ", "\u00a0", "\u202f", "'", "\u2019", "_"]
    list_separator: _Value
    fill: _Value
    types: _Value
    drop: _Value
    only: _Value
    flatten: bool
    json_columns: _Value
    label_separator: _Value
    on_duplicate_key: Literal["allow", "reject", "fail"]
    manifest: _Value
    allow_outside: bool
    file_column: str
    label_column: str
    label_pattern: _Value
    split_lists: _Value
    file_suffix: str
    file_root: str
    split_column: str
    coco: _Value
    voc: _Value
    yolo: _Value
    annotations: _Value
    boxes_csv: _Value
    on_bad_box: Literal["reject", "drop", "clip"]
    unread_objects: Literal["reject", "drop"]
    boxes_seen: Literal["stored", "upright"]
    feature_names: Literal["tfds", "object_detection"]
    masks: _Value
    mask_column: _Value
    mask_pattern: str
    mask_dtype: Literal["uint8", "uint16"]
    mask_colors: _Value
    masks_seen: Literal["stored", "upright"]
    run_lengths: _Value
    run_order: Literal["columns", "rows"]
    unlisted_masks: Literal["reject", "empty"]
    masks_of: Literal["coco"]
    mask_values: Literal["classes", "classes+1", "instances"]
    verify: Literal["header", "decode", "none"]
    image_format: Literal["jpeg", "png"]
    resize: _Value
    resize_mode: Literal["exact", "cover", "contain"]
    jpeg_quality: int
    image_bands: _Value
    on_several_frames: Literal["reject", "first"]
    max_pixels: int
    coordinates: _Value
    near_duplicates: bool
    timestamp: _Value

class _ArraysOptions(_Options, total=False):
    reuse: _Value
    no_shuffle: bool
    folders: _Value
    exclude: _Value
    on_damaged_file: Literal["fail", "reject"]
    input: _Value
    transform: _Value
    analyze_splits: _Value
    transform_graph: _Value
    delimiter: _Value
    quote: _Value
    columns: _Value
    header: Literal["auto", "first", "none"]
    skip_lines: int
    comment: str
    encoding: str
    missing: _Value
    escape: _Value
    decimal: Literal[".", ","]
    thousands: Literal[",", ".", " ", "\u00a0", "\u202f", "'", "\u2019", "_"]
    list_separator: _Value
    fill: _Value
    types: _Value
    drop: _Value
    only: _Value
    flatten: bool
    json_columns: _Value
    label_separator: _Value
    on_duplicate_key: Literal["allow", "reject", "fail"]
    manifest: _Value
    allow_outside: bool
    file_column: str
    label_column: str
    label_pattern: _Value
    split_lists: _Value
    file_suffix: str
    file_root: str
    split_column: str
    feature: _Value
    shape: _Value
    dtype: Literal[
        "float16",
        "float32",
        "float64",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "bool",
        "complex64",
        "complex128",
    ]
    stacked: bool
    timestamp: _Value

class _AudioOptions(_Options, total=False):
    reuse: _Value
    no_shuffle: bool
    folders: _Value
    exclude: _Value
    on_damaged_file: Literal["fail", "reject"]
    input: _Value
    transform: _Value
    analyze_splits: _Value
    transform_graph: _Value
    delimiter: _Value
    quote: _Value
    columns: _Value
    header: Literal["auto", "first", "none"]
    skip_lines: int
    comment: str
    encoding: str
    missing: _Value
    escape: _Value
    decimal: Literal[".", ","]
    thousands: Literal[",", ".", " ", "\u00a0", "\u202f", "'", "\u2019", "_"]
    list_separator: _Value
    fill: _Value
    types: _Value
    drop: _Value
    only: _Value
    flatten: bool
    json_columns: _Value
    label_separator: _Value
    on_duplicate_key: Literal["allow", "reject", "fail"]
    manifest: _Value
    allow_outside: bool
    file_column: str
    label_column: str
    label_pattern: _Value
    split_lists: _Value
    file_suffix: str
    file_root: str
    split_column: str
    decode_audio: bool
    timestamp: _Value

class _CsvOptions(_Options, total=False):
    no_shuffle: bool
    exclude: _Value
    on_damaged_file: Literal["fail", "reject"]
    input: _Value
    sequence_by: str
    order_by: str
    tokenizer: _Value
    tokenize: str
    max_length: int
    pack_to: int
    end_of_text: str
    special_tokens: Literal["token", "text"]
    keep_text: bool
    transform: _Value
    analyze_splits: _Value
    transform_graph: _Value
    module_file: _Value
    materialize: bool
    delimiter: _Value
    quote: _Value
    columns: _Value
    header: Literal["auto", "first", "none"]
    skip_lines: int
    comment: str
    encoding: str
    missing: _Value
    escape: _Value
    decimal: Literal[".", ","]
    thousands: Literal[",", ".", " ", "\u00a0", "\u202f", "'", "\u2019", "_"]
    list_separator: _Value
    fill: _Value
    types: _Value
    drop: _Value
    only: _Value
    label_separator: _Value
    on_duplicate_key: Literal["allow", "reject", "fail"]
    schema: _Value
    strip: bool
    on_other_columns: Literal["fail", "reject", "union"]
    label: _Value
    timestamp: _Value
    hive_partitioning: bool
    stack: _Value
    key: str
    block_size: _Value

class _JsonlOptions(_Options, total=False):
    no_shuffle: bool
    exclude: _Value
    on_damaged_file: Literal["fail", "reject"]
    input: _Value
    sequence_by: str
    order_by: str
    tokenizer: _Value
    tokenize: str
    max_length: int
    pack_to: int
    end_of_text: str
    special_tokens: Literal["token", "text"]
    keep_text: bool
    transform: _Value
    analyze_splits: _Value
    transform_graph: _Value
    module_file: _Value
    materialize: bool
    encoding: str
    fill: _Value
    types: _Value
    drop: _Value
    only: _Value
    flatten: bool
    json_columns: _Value
    label_separator: _Value
    on_duplicate_key: Literal["allow", "reject", "fail"]
    schema: _Value
    label: _Value
    timestamp: _Value
    hive_partitioning: bool
    stack: _Value
    key: str
    block_size: _Value

class _ParquetOptions(_Options, total=False):
    no_shuffle: bool
    exclude: _Value
    on_damaged_file: Literal["fail", "reject"]
    input: _Value
    on_bad_box: Literal["reject", "drop", "clip"]
    boxes_seen: Literal["stored", "upright"]
    verify: Literal["header", "decode"]
    max_pixels: int
    sequence_by: str
    order_by: str
    tokenizer: _Value
    tokenize: str
    max_length: int
    pack_to: int
    end_of_text: str
    special_tokens: Literal["token", "text"]
    keep_text: bool
    transform: _Value
    analyze_splits: _Value
    transform_graph: _Value
    module_file: _Value
    materialize: bool
    fill: _Value
    types: _Value
    drop: _Value
    only: _Value
    flatten: bool
    json_columns: _Value
    label_separator: _Value
    on_duplicate_key: Literal["allow", "reject", "fail"]
    schema: _Value
    on_other_columns: Literal["fail", "reject", "union"]
    label: _Value
    image: _Value
    timestamp: _Value
    hive_partitioning: bool
    stack: _Value
    key: str

class _AvroOptions(_Options, total=False):
    no_shuffle: bool
    exclude: _Value
    on_damaged_file: Literal["fail", "reject"]
    input: _Value
    verify: Literal["header", "decode"]
    max_pixels: int
    sequence_by: str
    order_by: str
    tokenizer: _Value
    tokenize: str
    max_length: int
    pack_to: int
    end_of_text: str
    special_tokens: Literal["token", "text"]
    keep_text: bool
    transform: _Value
    analyze_splits: _Value
    transform_graph: _Value
    module_file: _Value
    materialize: bool
    fill: _Value
    types: _Value
    drop: _Value
    only: _Value
    flatten: bool
    json_columns: _Value
    label_separator: _Value
    on_duplicate_key: Literal["allow", "reject", "fail"]
    schema: _Value
    on_other_columns: Literal["fail", "reject", "union"]
    label: _Value
    image: _Value
    timestamp: _Value
    hive_partitioning: bool
    stack: _Value
    key: str
    block_size: _Value

class _WebdatasetOptions(_Options, total=False):
    no_shuffle: bool
    exclude: _Value
    on_damaged_file: Literal["fail", "reject"]
    input: _Value
    on_bad_box: Literal["reject", "drop", "clip"]
    boxes_seen: Literal["stored", "upright"]
    verify: Literal["header", "decode"]
    max_pixels: int
    sequence_by: str
    order_by: str
    tokenizer: _Value
    tokenize: str
    max_length: int
    pack_to: int
    end_of_text: str
    special_tokens: Literal["token", "text"]
    keep_text: bool
    transform: _Value
    analyze_splits: _Value
    transform_graph: _Value
    module_file: _Value
    materialize: bool
    fill: _Value
    types: _Value
    drop: _Value
    only: _Value
    label_separator: _Value
    on_duplicate_key: Literal["allow", "reject", "fail"]
    schema: _Value
    label: _Value
    timestamp: _Value
    hive_partitioning: bool
    stack: _Value
    key: str
    key_until: Literal["first_dot", "last_dot"]
    block_size: _Value

class _ReshardOptions(_Options, total=False):
    input: _Value
    no_shuffle: bool
    exclude: _Value
    on_damaged_file: Literal["fail", "reject"]
    on_duplicate_key: Literal["allow", "reject", "fail"]
    schema: _Value
    label: _Value
    key: str
    on_mixed: Literal["fail", "reject"]
    record_type: Literal["example", "raw"]
    block_size: _Value

class _TextOptions(_Options, total=False):
    input: _Value
    no_shuffle: bool
    folders: _Value
    exclude: _Value
    on_damaged_file: Literal["fail", "reject"]
    tokenizer: _Value
    tokenize: str
    max_length: int
    pack_to: int
    end_of_text: str
    special_tokens: Literal["token", "text"]
    keep_text: bool
    transform: _Value
    analyze_splits: _Value
    transform_graph: _Value
    module_file: _Value
    materialize: bool
    encoding: str
    record: Literal["auto", "line", "paragraph", "file"]
    separator: _Value
    line_numbers: bool
    block_size: _Value
    reuse: _Value

class _SqlOptions(_Options, total=False):
    on_bad_box: Literal["reject", "drop", "clip"]
    boxes_seen: Literal["stored", "upright"]
    verify: Literal["header", "decode"]
    max_pixels: int
    sequence_by: str
    order_by: str
    tokenizer: _Value
    tokenize: str
    max_length: int
    pack_to: int
    end_of_text: str
    special_tokens: Literal["token", "text"]
    keep_text: bool
    transform: _Value
    analyze_splits: _Value
    transform_graph: _Value
    module_file: _Value
    materialize: bool
    fill: _Value
    types: _Value
    drop: _Value
    only: _Value
    flatten: bool
    json_columns: _Value
    label_separator: _Value
    on_duplicate_key: Literal["allow", "reject", "fail"]
    schema: _Value
    label: _Value
    image: _Value
    timestamp: _Value
    stack: _Value
    key: str
    block_size: _Value
    url: _Value
    query: _Value
    partition_by: str

class _BigqueryOptions(_Options, total=False):
    on_bad_box: Literal["reject", "drop", "clip"]
    boxes_seen: Literal["stored", "upright"]
    verify: Literal["header", "decode"]
    max_pixels: int
    sequence_by: str
    order_by: str
    tokenizer: _Value
    tokenize: str
    max_length: int
    pack_to: int
    end_of_text: str
    special_tokens: Literal["token", "text"]
    keep_text: bool
    transform: _Value
    analyze_splits: _Value
    transform_graph: _Value
    module_file: _Value
    materialize: bool
    fill: _Value
    types: _Value
    drop: _Value
    only: _Value
    flatten: bool
    json_columns: _Value
    label_separator: _Value
    on_duplicate_key: Literal["allow", "reject", "fail"]
    schema: _Value
    label: _Value
    image: _Value
    timestamp: _Value
    stack: _Value
    key: str
    block_size: _Value
    query: _Value
    table: _Value
    temp_dataset: _Value

@overload
def convert(
    command: Literal["images"],
    *,
    beam_options: Sequence[str] = (),
    progress: bool = False,
    **options: Unpack[_ImagesOptions],
) -> Published:
    """Run a job: turn a tree of images, or a manifest that lists them, into TFRecord shards."""

@overload
def convert(
    command: Literal["arrays"],
    *,
    beam_options: Sequence[str] = (),
    progress: bool = False,
    **options: Unpack[_ArraysOptions],
) -> Published:
    """Run a job: turn .npy arrays and TIFFs of many bands into TFRecord shards."""

@overload
def convert(
    command: Literal["audio"],
    *,
    beam_options: Sequence[str] = (),
    progress: bool = False,
    **options: Unpack[_AudioOptions],
) -> Published:
    """Run a job: turn WAV files into TFRecord shards."""

@overload
def convert(
    command: Literal["csv"],
    *,
    beam_options: Sequence[str] = (),
    progress: bool = False,
    **options: Unpack[_CsvOptions],
) -> Published:
    """Run a job: turn CSV or TSV files into TFRecord shards."""

@overload
def convert(
    command: Literal["jsonl"],
    *,
    beam_options: Sequence[str] = (),
    progress: bool = False,
    **options: Unpack[_JsonlOptions],
) -> Published:
    """Run a job: turn JSON lines into TFRecord shards."""

@overload
def convert(
    command: Literal["parquet"],
    *,
    beam_options: Sequence[str] = (),
    progress: bool = False,
    **options: Unpack[_ParquetOptions],
) -> Published:
    """Run a job: turn Parquet files into TFRecord shards."""

@overload
def convert(
    command: Literal["avro"],
    *,
    beam_options: Sequence[str] = (),
    progress: bool = False,
    **options: Unpack[_AvroOptions],
) -> Published:
    """Run a job: turn Avro files into TFRecord shards."""

@overload
def convert(
    command: Literal["webdataset"],
    *,
    beam_options: Sequence[str] = (),
    progress: bool = False,
    **options: Unpack[_WebdatasetOptions],
) -> Published:
    """Run a job: turn tar files of WebDataset into TFRecord shards."""

@overload
def convert(
    command: Literal["reshard"],
    *,
    beam_options: Sequence[str] = (),
    progress: bool = False,
    **options: Unpack[_ReshardOptions],
) -> Published:
    """Run a job: distribute existing TFRecords to balanced, shuffled shards."""

@overload
def convert(
    command: Literal["text"],
    *,
    beam_options: Sequence[str] = (),
    progress: bool = False,
    **options: Unpack[_TextOptions],
) -> Published:
    """Run a job: turn text into TFRecord shards, one example for each line, document or file."""

@overload
def convert(
    command: Literal["sql"],
    *,
    beam_options: Sequence[str] = (),
    progress: bool = False,
    **options: Unpack[_SqlOptions],
) -> Published:
    """Run a job: turn the rows of an SQL query into TFRecord shards."""

@overload
def convert(
    command: Literal["bigquery"],
    *,
    beam_options: Sequence[str] = (),
    progress: bool = False,
    **options: Unpack[_BigqueryOptions],
) -> Published:
    """Run a job: turn a table or a query of BigQuery into TFRecord shards."""

@overload
def plan(
    command: Literal["images"],
    *,
    beam_options: Sequence[str] = (),
    progress: bool = False,
    **options: Unpack[_ImagesOptions],
) -> Plan:
    """Plan a job, without running it: turn a tree of images, or a manifest that lists them, into TFRecord shards."""

@overload
def plan(
    command: Literal["arrays"],
    *,
    beam_options: Sequence[str] = (),
    progress: bool = False,
    **options: Unpack[_ArraysOptions],
) -> Plan:
    """Plan a job, without running it: turn .npy arrays and TIFFs of many bands into TFRecord shards."""

@overload
def plan(
    command: Literal["audio"],
    *,
    beam_options: Sequence[str] = (),
    progress: bool = False,
    **options: Unpack[_AudioOptions],
) -> Plan:
    """Plan a job, without running it: turn WAV files into TFRecord shards."""

@overload
def plan(
    command: Literal["csv"],
    *,
    beam_options: Sequence[str] = (),
    progress: bool = False,
    **options: Unpack[_CsvOptions],
) -> Plan:
    """Plan a job, without running it: turn CSV or TSV files into TFRecord shards."""

@overload
def plan(
    command: Literal["jsonl"],
    *,
    beam_options: Sequence[str] = (),
    progress: bool = False,
    **options: Unpack[_JsonlOptions],
) -> Plan:
    """Plan a job, without running it: turn JSON lines into TFRecord shards."""

@overload
def plan(
    command: Literal["parquet"],
    *,
    beam_options: Sequence[str] = (),
    progress: bool = False,
    **options: Unpack[_ParquetOptions],
) -> Plan:
    """Plan a job, without running it: turn Parquet files into TFRecord shards."""

@overload
def plan(
    command: Literal["avro"],
    *,
    beam_options: Sequence[str] = (),
    progress: bool = False,
    **options: Unpack[_AvroOptions],
) -> Plan:
    """Plan a job, without running it: turn Avro files into TFRecord shards."""

@overload
def plan(
    command: Literal["webdataset"],
    *,
    beam_options: Sequence[str] = (),
    progress: bool = False,
    **options: Unpack[_WebdatasetOptions],
) -> Plan:
    """Plan a job, without running it: turn tar files of WebDataset into TFRecord shards."""

@overload
def plan(
    command: Literal["reshard"],
    *,
    beam_options: Sequence[str] = (),
    progress: bool = False,
    **options: Unpack[_ReshardOptions],
) -> Plan:
    """Plan a job, without running it: distribute existing TFRecords to balanced, shuffled shards."""

@overload
def plan(
    command: Literal["text"],
    *,
    beam_options: Sequence[str] = (),
    progress: bool = False,
    **options: Unpack[_TextOptions],
) -> Plan:
    """Plan a job, without running it: turn text into TFRecord shards, one example for each line, document or file."""

@overload
def plan(
    command: Literal["sql"],
    *,
    beam_options: Sequence[str] = (),
    progress: bool = False,
    **options: Unpack[_SqlOptions],
) -> Plan:
    """Plan a job, without running it: turn the rows of an SQL query into TFRecord shards."""

@overload
def plan(
    command: Literal["bigquery"],
    *,
    beam_options: Sequence[str] = (),
    progress: bool = False,
    **options: Unpack[_BigqueryOptions],
) -> Plan:
    """Plan a job, without running it: turn a table or a query of BigQuery into TFRecord shards."""

class _WriteOptions(TypedDict, total=False):
    splits: _Value
    group_by: str
    stratify_by: str
    seed: int
    split_seed: int
    shard_size: _Value
    num_shards: _Value
    balance: Literal["examples", "bytes", "tokens"]
    file_format: Literal["tfrecord", "array_record"]
    compression: Literal["none", "gzip"]
    file_template: str
    index: bool
    map: _Function
    map_batches: _Function
    rename: _Value
    labels_file: _Value
    on_new_label: Literal["fail", "append", "reject"]
    output: Required[_Path]
    name: Required[str]
    version: str
    overwrite: bool
    set_latest: bool
    allow_future: bool
    max_reject_fraction: float
    threads: int
    workers: _Value
    on_bad_box: Literal["reject", "drop", "clip"]
    boxes_seen: Literal["stored", "upright"]
    verify: Literal["header", "decode"]
    max_pixels: int
    sequence_by: str
    order_by: str
    tokenizer: _Value
    tokenize: str
    max_length: int
    pack_to: int
    end_of_text: str
    special_tokens: Literal["token", "text"]
    keep_text: bool
    transform: _Value
    analyze_splits: _Value
    transform_graph: _Value
    module_file: _Value
    materialize: bool
    fill: _Value
    types: _Value
    drop: _Value
    only: _Value
    flatten: bool
    json_columns: _Value
    label_separator: _Value
    on_duplicate_key: Literal["allow", "reject", "fail"]
    schema: _Value
    label: _Value
    image: _Value
    timestamp: _Value
    stack: _Value
    key: str
    block_size: _Value
    no_shuffle: bool

@overload
def write(
    data: object,
    *,
    beam_options: Sequence[str] = (),
    progress: bool = False,
    dry_run: Literal[False] = False,
    **options: Unpack[_WriteOptions],
) -> Published:
    """Write rows that the program holds as TFRecord shards."""

@overload
def write(
    data: object,
    *,
    beam_options: Sequence[str] = (),
    progress: bool = False,
    dry_run: Literal[True],
    **options: Unpack[_WriteOptions],
) -> Plan:
    """Write rows that the program holds as TFRecord shards."""
