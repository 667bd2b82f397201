"""What all arrays of an input are to be: as flags say, or as the first file by name is."""

from dataclasses import dataclass, fields, replace

from shardmill.errors import UserError
from shardmill.features.feature import Feature, Features
from shardmill.transforms.examples.encode import MAX_RECORD_BYTES
from shardmill.transforms.files.arrays.npy import HEADER_BYTES, ArrayType, NpyError, read_header
from shardmill.transforms.files.features import file_features
from shardmill.transforms.inputs.summary import InputSummary
from shardmill.transforms.layout.file_options import LayoutOptions
from shardmill.transforms.layout.files import Layout, make_layout
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.error_text import error_text
from shardmill.transforms.stores.failures import raise_if_store_failed

_REMEDY = "give --shape and --dtype, such as --shape 64,64 --dtype float32"
_ROOM = 1 << 20  # in a record, for what is beside the array


@dataclass(frozen=True, slots=True)
class ArrayOptions:
    """What the user said about arrays.

    Attributes:
      root: the folder that names are relative to.
      feature: the name of their feature.
      given: what all are, or None where the first says it.
    """

    root: str
    feature: str = "image"
    given: ArrayType | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayLayout(Layout):
    """The reading of an input of arrays.

    Attributes:
      array: what all of them are.
      example: the name of the file that says so; "" where --shape and --dtype do.
    """

    array: ArrayType
    example: str


def make_array_layout(summary: InputSummary, options: LayoutOptions, arrays: ArrayOptions) -> ArrayLayout:
    """As `make_layout`, with the type of all arrays; reads the header of the first file by name unless that is given.

    Raises:
      UserError: as `make_layout`, or the first file does not say a type.
      OSError: an object store failed; a runner tries again.
    """
    layout = make_layout(summary, options)
    if arrays.given is not None:
        _check_size(arrays.given, "--shape and --dtype: ", "")
        return _with_array(layout, arrays.given, "")
    if summary.first is None:
        raise UserError(f"{options.source} has no file that says what the arrays are; {_REMEDY}")
    name, uri = summary.first
    what = f"{options.source}: {name!r}, the first file by name, does not say what the arrays are: "
    try:
        found = _read_type(uri or storage.join(arrays.root, name))
    except (NpyError, FileNotFoundError) as error:
        raise UserError(f"{what}{'no such file' if isinstance(error, OSError) else error}; {_REMEDY}") from None
    except OSError as error:
        raise_if_store_failed(error, uri or arrays.root)
        raise UserError(f"{what}it cannot be read: {error_text(error)}; {_REMEDY}") from None
    _check_size(found, what, f"; {_REMEDY}")
    notice = f"the arrays are {found}, as is {name!r}, the first by name; others are rejected"
    return _with_array(replace(layout, notices=(*layout.notices, notice)), found, name)


def _with_array(layout: Layout, array: ArrayType, example: str) -> ArrayLayout:
    return ArrayLayout(
        **{item.name: getattr(layout, item.name) for item in fields(layout)}, array=array, example=example
    )


def array_features(layout: ArrayLayout, rows: int, feature: str) -> Features:
    """The features, in the order in which shardmill.transforms.files.arrays.encode writes them; `rows` are planned."""
    array = Feature(feature, "bytes", "array", layout.array.shape, element=layout.array.element)
    return file_features(layout, rows, array)


def _read_type(path: str) -> ArrayType:
    with storage.open_read(path) as file:
        return read_header(file.read(HEADER_BYTES)).type


def _check_size(array: ArrayType, what: str, remedy: str) -> None:
    if array.size_bytes > MAX_RECORD_BYTES - _ROOM:
        raise UserError(f"{what}{array} is {array.size_bytes:,} bytes; an example holds 2 GB at most{remedy}")
