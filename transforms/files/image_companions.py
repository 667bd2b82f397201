"""Further images of an example, and what add-ons store next to its image, such as masks."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from shardmill.data.example import decode_example
from shardmill.data.features import MAX_PIXELS, Feature, Features, Renames
from shardmill.data.media import mask_array
from shardmill.transforms.columns.example_bytes import FOOTER_BYTES, HEADER_BYTES
from shardmill.transforms.files.image_codec import Reencode
from shardmill.transforms.files.image_features import property_notices, turned_notices
from shardmill.transforms.files.image_geometry import ImageError, Picture
from shardmill.transforms.files.image_headers import PLAIN, ImageHeader, Properties, check_structure, read_header
from shardmill.transforms.inputs.found_files import Companion, CompanionCodec, drawn_text
from shardmill.transforms.statistics.files import CompanionStats
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import changed_error, error_text
from shardmill.transforms.stores.storage import raise_if_store_failed


class EncodedCompanion(NamedTuple):
    """A companion as it is stored."""

    data: bytes
    header: ImageHeader | None = None  # of an image; None for what a codec encodes
    source_kind: str = ""  # the kind of file that a codec converted; of an image: its properties or ""


def encode_companions(
    companions: Sequence[Companion],
    paths: Sequence[str],
    picture: Picture,
    settings: Reencode | None,
    encode_image: Callable[[str, bytes], tuple[bytes, ImageHeader]],
    max_pixels: int,
    decodes: bool,
) -> tuple[EncodedCompanion, ...]:
    """Read and encode the companions of one image, or raise an ImageError that begins with the name of one."""
    encoded = []
    for item, path, small in zip(companions, paths, storage.read_small(list(paths))[0], strict=True):
        try:
            data = drawn_text(path) or (storage.read_bytes(path) if small is None else small)
            if item.codec is not None:
                stored, source_kind = item.codec.encode(data, picture, settings, max_pixels, decodes)
                encoded.append(EncodedCompanion(stored, source_kind=source_kind))
            else:
                stored, header = encode_image(path, data)
                properties = header.properties.to_text() if header.properties != PLAIN else ""
                encoded.append(EncodedCompanion(stored, header, properties))
        except ImageError as error:
            raise ImageError(f"{item.display_name}: {error}") from error
        except FileNotFoundError:  # it was listed
            raise changed_error(path) from None
        except OSError as error:
            raise_if_store_failed(error, path)
            raise ImageError(f"{item.display_name}: cannot be read: {error_text(error)}") from error
    return tuple(encoded)


def restore_companions(
    companions: Sequence[Companion], renames: Renames, record: bytes, source_kinds: str, has_sizes: bool
) -> tuple[EncodedCompanion, ...]:
    """Return the companions in a framed example of a previous version."""
    values = decode_example(record[HEADER_BYTES:-FOOTER_BYTES])
    restored = []
    for item, source_kind in zip(companions, source_kinds.split(","), strict=True):
        data = bytes(values[renames(item.feature)][0])
        header = None
        if item.codec is None:
            header = check_structure(data, read_header(data)) if has_sizes else ImageHeader("unchecked", 0, 0)
            if source_kind:
                header = replace(header, properties=Properties.from_text(source_kind))
        restored.append(EncodedCompanion(data, header, source_kind))
    return tuple(restored)


def count_extremes(masks: Iterable[bytes]) -> Counter[int]:
    """Count gray PNGs of the values 0 and 255 by their highest value, up to the first one with other values."""
    tops = Counter[int]()
    with suppress(ValueError):  # of a damaged file
        for data in masks:
            values = mask_array(data, MAX_PIXELS)
            if ((values != 0) & (values != 255)).any():
                break
            tops[int(values.max())] += 1
    return tops


def companion_features(
    companions: Sequence[Companion],
    formats: dict[str, list[str]],
    has_known_formats: bool,
    mask_classes: Collection[tuple[int, str]],
) -> Features:
    """Return the features of companions, in writing order; a single known format of a feature is its encoding."""
    features = []
    for item in companions:
        written = formats.get(item.feature, []) if has_known_formats else []
        image = Feature(item.feature, "bytes", "image", encoding=written[0] if len(written) == 1 else "")
        features.append(image if item.codec is None else item.codec.make_feature(item.feature, sorted(mask_classes)))
    return tuple(features)


def companion_notices(
    companions: Sequence[Companion], companion_stats: Mapping[str, CompanionStats], reencoded: bool
) -> list[str]:
    """Return notices of companions that were converted, and of properties of companion images."""
    notices, coded = list[str](), list[tuple[CompanionCodec, CompanionStats]]()
    for item in companions:
        stats = companion_stats.get(item.feature, CompanionStats())
        found = [*turned_notices(stats.rotated), *property_notices(stats.properties, reencoded)]
        if item.codec is not None:
            kinds = sorted(stats.source_kinds.items())
            found = [f"{item.codec.describe_conversion(kind, n)}, the first of {name!r}" for kind, (n, name) in kinds]
            coded.append((item.codec, stats))
        notices += [f"{item.feature}: {notice}" for notice in found]
    tops, number = sum((stats.tops for _, stats in coded), Counter[int]()), sum(stats.sizes.count for _, stats in coded)
    if tops[255] and tops.total() == number and not any("palette" in stats.source_kinds for _, stats in coded):
        notices.append(coded[0][0].describe_conversion("extremes", number))
    return list(filter(None, notices))
