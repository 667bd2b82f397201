"""Damaged images of every format, held against TensorFlow: what `--verify decode` accepts, tf.io.decode_image must
decode.

    python tests/mutants.py --number 10000

TensorFlow decodes in processes of its own, for there are files on which it dies; that counts as a refusal.
"""

import argparse
import io
import os
import random
import struct
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from shardmill.transforms.files.image_codec import check_decodes
from shardmill.transforms.files.image_geometry import ImageError
from shardmill.transforms.files.image_headers import check_structure, read_header

_WIDTH, _HEIGHT = 19, 13
_DIED = "died"


def encode(image: Image.Image, format_: str, **options: Any) -> bytes:
    """`image` as a file."""
    out = io.BytesIO()
    image.save(out, format_, **options)
    return out.getvalue()


def picture(mode: str = "RGB") -> Image.Image:
    """Noise, so that compressed pixels hold every byte value."""
    noise = np.random.default_rng(5).integers(0, 256, (_HEIGHT, _WIDTH, 4), np.uint8)
    return Image.fromarray(noise, "RGBA").convert(mode)


def originals() -> list[bytes]:
    """Good images of every format and of each of its kinds."""
    exif = Image.Exif()
    exif[0x0112] = 6
    more = [picture("L")]
    return [
        encode(picture(), "JPEG"),
        encode(picture(), "JPEG", progressive=True),
        encode(picture("L"), "JPEG", exif=exif),
        encode(picture("CMYK"), "JPEG"),
        encode(picture(), "JPEG", restart_marker_blocks=1, quality=30),
        encode(picture().resize((60, 50)), "JPEG", subsampling=0, comment=b"\xff\xd9 is no end here"),
        *(encode(picture(mode), "PNG") for mode in ("RGB", "RGBA", "P", "1", "L", "LA", "I;16")),
        encode(picture("P"), "PNG", transparency=3),
        encode(picture("L"), "PNG", transparency=3, exif=exif, dpi=(72, 72)),
        encode(picture("P"), "GIF"),
        encode(picture("P"), "GIF", transparency=0),
        encode(picture("P"), "GIF", save_all=True, append_images=more, loop=0),
        *(encode(picture(mode), "BMP") for mode in ("RGB", "RGBA", "P", "L", "1")),
        encode(picture(), "WEBP"),
        encode(picture(), "WEBP", lossless=True),
        encode(picture("RGBA"), "WEBP"),
        encode(picture("RGBA"), "WEBP", lossless=True),
        encode(picture(), "WEBP", exif=exif),
        encode(picture(), "WEBP", save_all=True, append_images=more),
    ]


def mutants(number: int, seed: int = 0, good: Sequence[bytes] = ()) -> Iterator[bytes]:
    """`number` damaged images, always the same ones, of `good` ones or of those of every format."""
    good, generator = good or originals(), random.Random(seed)
    for index in range(number):
        data = bytearray(good[index % len(good)])
        for _ in range(generator.choice((1, 1, 1, 2, 3))):
            if data:
                _damage(data, generator)
        # A checksum hides all other damage, so half of the PNGs get good ones.
        yield _with_good_crcs(bytes(data)) if generator.random() < 0.5 else bytes(data)


def _damage(data: bytearray, generator: random.Random) -> None:
    """One of the things that happen to files, half of the time near the beginning, where the headers are."""
    at = generator.randrange(min(len(data), 64) if generator.random() < 0.5 else len(data))
    size = generator.choice((1, 2, 4, 13))
    kind = generator.randrange(8)
    if kind == 0:
        data[at] ^= 1 << generator.randrange(8)
    elif kind == 1:
        data[at] = generator.choice((0, 1, 0x7F, 0x80, 0xFF, generator.randrange(256)))
    elif kind == 2:
        del data[max(at, 8) :]
    elif kind == 3:
        del data[at : at + size]
    elif kind == 4:
        data[at:at] = generator.randbytes(size)
    elif kind == 5:
        data[at : at + size] = bytes(size)
    elif kind == 6:
        data[at:at] = data[at : at + 4 * size]
    else:
        data[at : at + 2] = bytes((0xFF, generator.randrange(256)))


def _with_good_crcs(data: bytes) -> bytes:
    """A PNG whose chunks, as far as they can be found, have the checksums of what they hold; anything else as it is."""
    out, position = bytearray(data), 8
    while data.startswith(b"\x89PNG") and position + 12 <= len(data):
        end = position + 8 + int.from_bytes(data[position : position + 4], "big")
        if end + 4 > len(data):
            break
        out[end : end + 4] = struct.pack(">I", zlib.crc32(data[position + 4 : end]))
        position = end + 4
    return bytes(out)


def problem(data: bytes) -> str:
    """Why `--verify decode` refuses an image; "" where it accepts it."""
    try:
        check_structure(data, read_header(data))
        check_decodes(data)
    except ImageError as error:
        return str(error)
    return ""


def tensorflow_problems(images: Sequence[bytes], batch: int = 500) -> list[str]:
    """Why TensorFlow refuses each image, as it is and as RGB; "" where it decodes it."""
    found: list[str] = []
    while len(found) < len(images):
        part = images[len(found) : len(found) + batch]
        sent = b"".join(struct.pack("<I", len(image)) + image for image in part)
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
        done = subprocess.run(
            [sys.executable, __file__, "--decode"],
            input=sent,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        answers = done.stdout.decode().splitlines()
        found += [answer.removeprefix("+") for answer in answers]
        if len(answers) < len(part):
            found.append(f"{_DIED} with status {done.returncode}")
    return found


def _decode() -> None:
    """The other process: images from standard input, a line for each on standard output."""
    import tensorflow as tf  # slow, and not for the process that it may end

    source = sys.stdin.buffer
    while size := source.read(4):
        data, message = source.read(struct.unpack("<I", size)[0]), ""
        try:
            for channels in (0, 3):
                tf.io.decode_image(data, channels=channels, expand_animations=False)
        except tf.errors.OpError as error:
            message = f"{channels} channels: {' '.join(str(error.message).split())}"
        print(f"+{message}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print how many mutants which side refuses; status 1 if TensorFlow refuses one that was accepted."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--number", type=int, default=10_000, help="of mutants (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="a folder for the mutants that only TensorFlow refuses")
    parser.add_argument("--decode", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if args.decode:
        _decode()
        return 0
    images = list(mutants(args.number, args.seed))
    ours = [problem(image) for image in images]
    accepted = [image for image, message in zip(images, ours, strict=True) if not message]
    theirs = tensorflow_problems(accepted)
    bad = [(image, message) for image, message in zip(accepted, theirs, strict=True) if message]
    print(f"{len(images):,} mutants, {len(accepted):,} accepted, {len(bad):,} of them refused by TensorFlow")
    for (start, message), times in Counter((image[:4], message) for image, message in bad).most_common(20):
        print(f"{times:6,} x {start!r} {message[:150]}")
    if args.keep:
        args.keep.mkdir(parents=True, exist_ok=True)
        for number, (image, _) in enumerate(bad):
            (args.keep / f"{number:05d}").write_bytes(image)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
