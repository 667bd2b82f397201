"""The buffers of Arrow arrays as NumPy arrays, without a copy: where values begin and end, and their bytes."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def buffer_items(buffer: pa.Buffer | None, dtype: type, start: int, count: int) -> np.ndarray:
    """`count` items from item `start` on; zeros if there is no buffer, which Arrow permits where nothing is to be
    read."""
    if buffer is None or buffer.size == 0:
        return np.zeros(count, dtype)
    return np.ndarray(count, dtype, buffer, start * np.dtype(dtype).itemsize)


def offsets_of(array: pa.Array) -> np.ndarray:
    """Where the values of `array`, binary or lists, begin and end in what they are made of, shape (rows + 1,), in
    Arrow's width."""
    kind = array.type
    large = pa.types.is_large_binary(kind) or pa.types.is_large_string(kind) or pa.types.is_large_list(kind)
    return buffer_items(array.buffers()[1], np.int64 if large else np.int32, array.offset, len(array) + 1)


def data_of(array: pa.Array) -> npt.NDArray[np.uint8]:
    """The bytes that the offsets of `array`, binary, lie in, those of values before and behind it too."""
    return np.frombuffer(array.buffers()[2] or b"", np.uint8)


def text_buffers(column: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.signedinteger]]:
    """The bytes of a binary array, one value after the other, and where each starts in them; a last one where the last
    ends."""
    offsets = offsets_of(column)
    return data_of(column)[offsets[0] : offsets[-1]], offsets - offsets[0]
