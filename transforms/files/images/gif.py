"""The structure of a GIF from its blocks: GIF89a, sections 15 to 27. No decoder is involved."""

from shardmill.transforms.files.images.errors import ImageError

_EXTENSION, _IMAGE, _TRAILER = 0x21, 0x2C, 0x3B  # how blocks begin


def measure(data: bytes) -> tuple[int, int]:
    """(width, height); raises IndexError if the header is cut short."""
    return data[6] | data[7] << 8, data[8] | data[9] << 8


def check(data: bytes) -> None:
    """Walk the blocks from the file's start to its trailer, which as a byte also stands among compressed pixels.

    Raises:
      ImageError: the end is missing, or there is no frame, or a frame has no colours.
    """
    try:
        frames = _walk(data)
    except IndexError:
        raise ImageError("truncated: the gif has no end") from None
    if not frames:
        raise ImageError("a gif without a frame")


def _walk(data: bytes) -> int:
    """The number of frames."""
    frames, position = 0, 13 + _table_bytes(data[10])
    while (block := data[position]) != _TRAILER:
        if block == _IMAGE:
            frames += 1
            _check_frame(data, position, frames)
            position += 11 + _table_bytes(data[position + 9])
        elif block == _EXTENSION:
            position += 2
        else:
            raise ImageError(f"a gif with {block:#04x} at byte {position}, where a block is due")
        while data[position]:
            position += 1 + data[position]
        position += 1
    return frames


def _check_frame(data: bytes, position: int, frame: int) -> None:
    if not (data[10] | data[position + 9]) & 0x80:
        raise ImageError(f"a gif whose frame {frame} has no colour map, neither its own nor the file's")
    bits = data[position + 10 + _table_bytes(data[position + 9])]
    if not 1 <= bits <= 8:
        raise ImageError(f"a gif whose frame {frame} is coded with {bits} bits, where 1 to 8 are possible")


def _table_bytes(flags: int) -> int:
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0
