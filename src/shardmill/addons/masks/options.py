"""Options for masks of images, and the files of colours that they name."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from shardmill.addons.registry import source_flags
from shardmill.errors import UserError
from shardmill.flag_values import OptionValueError, quote
from shardmill.pipelines.config.files import inside_archive
from shardmill.pipelines.config.images import CompanionOptions
from shardmill.text import alternatives, listed
from shardmill.transforms.options.declare import check_no_repeats, newer_flag, read_option_file
from shardmill.transforms.options.job_options import parse_names, parse_path

if TYPE_CHECKING:
    from shardmill.addons.masks.encoding import MaskCodec
    from shardmill.pipelines.config.images import ImagesConfig
    from shardmill.transforms.inputs.found_files import AddedCompanions


Color = tuple[int, int, int]  # red, green and blue, 0 to 255
MaskColors = tuple[tuple[str, Color], ...]  # the classes of masks in the order of their values, each with its colour
_COLOR_FIRST = re.compile(r"(\d+)[\s,;]+(\d+)[\s,;]+(\d+)[\s,;:]+(\S.*)")  # CamVid's label_colors.txt
_NAME_FIRST = re.compile(r"([^,:;\t]+?)\s*[,:;\s]\s*(\d+)[\s,;]+(\d+)[\s,;]+(\d+)\b.*")  # labelmap.txt, class_dict.csv


def parse_mask_colors(value: Any) -> MaskColors:
    """Parse the classes of colours in masks from the path of a file, or from (name, colour) pairs.

    A file has a line for each class, `64 128 64 Animal`, `Animal:64,128,64` or `Animal #408040`; a header such as
    `name,b,g,r` counts, and lines that begin with `# ` do not. Or it is JSON: a map of names to colours, the labels of
    CVAT, or the `dataset_meta.json` of datumaro.

    Raises:
        UserError: if the file cannot be read, or a line holds no name and colour.
        OptionValueError: if a name or a colour is there twice.
    """
    if isinstance(value, str):
        try:
            text = read_option_file("mask_colors", value).decode("utf-8-sig")
            text = re.sub("#([0-9a-fA-F]{6})\\b", lambda found: ",".join(map(str, bytes.fromhex(found[1]))), text)
            pairs = _colors_of_json(text) if value.lower().endswith(".json") else _colors_of_lines(text)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise UserError(f"--mask_colors {value} is no list of names and colours: {error}") from None
    else:
        pairs = [(str(name), color) for name, color in (value.items() if isinstance(value, Mapping) else value)]
    colors = [(name, _check_color(color)) for name, color in pairs]
    check_no_repeats([name for name, _ in colors], "the class {} is there twice")
    check_no_repeats([",".join(map(str, color)) for _, color in colors], "the colour {} is there twice")
    return tuple(colors)


def _check_color(color: Any) -> Color:
    try:
        red, green, blue = bytes(map(int, color.split(",") if isinstance(color, str) else color))
    except (TypeError, ValueError):
        raise OptionValueError(f"{color} is no colour; expected #rrggbb, or red, green, blue from 0 to 255") from None
    return red, green, blue


def _colors_of_json(text: str) -> list[tuple[str, Any]]:
    found = json.loads(text)
    if isinstance(found, list):
        return [(item["name"], item["color"]) for item in found]
    if "segmentation_colors" not in found:
        return list(found.items())
    names = found["label_map"]
    if sorted(map(int, names)) != list(range(len(found["segmentation_colors"]))):
        raise ValueError("label_map and segmentation_colors have other numbers")
    return [(names[str(number)], color) for number, color in enumerate(found["segmentation_colors"])]


def _colors_of_lines(text: str) -> list[tuple[str, Any]]:
    lines = [line.strip() for line in text.splitlines()]
    found, order = list[tuple[str, Any]](), "rgb"
    for number, line in enumerate(lines, 1):
        if not line or line.startswith("#"):
            continue
        if (match := _COLOR_FIRST.fullmatch(line)) is not None:
            name, parts = match[4], match.groups()[:3]
        elif (match := _NAME_FIRST.fullmatch(line)) is not None:
            name, parts = match[1], match.groups()[1:]
        elif found or re.search(r"\d", line):  # no header
            raise ValueError(f"line {number} is {line!r}; expected such as 'Animal:64,128,64' or '64 128 64 Animal'")
        else:
            header = "".join(word[0] for word in re.findall(r"\b(?:r|g|b|red|green|blue)\b", line.lower()))
            order = header if sorted(header) == sorted(order) else order
            continue
        found.append((name, ",".join(parts[order.index(color)] for color in "rgb")))
    if not found:
        raise ValueError("it is empty")
    return found


@dataclass(frozen=True, kw_only=True)
class MaskOptions(CompanionOptions):
    """Options for image segmentation."""

    masks: str | None = newer_flag(
        None,
        "Folder with one mask for each image, under the same relative path; the suffix may differ",
        parse=parse_path,
        metavar="DIR",
        to_json=bool,
    )
    mask_column: tuple[str, ...] = newer_flag(
        (),
        "Manifest column with the file name of each image's mask, or comma-separated columns",
        parse=parse_names,
        metavar="COLUMN,…",
    )
    mask_pattern: str = newer_flag(
        "",
        "Name of each image's mask without suffix, for example '{stem}_mask' or '{stem}_image={stem}_mask'; "
        "without --masks, --input holds the masks",
        check=lambda text: (
            "expected {stem} once, as in {stem}_mask, or {stem}_image={stem}_mask"
            if text and any(template.count("{stem}") != 1 for template in text.split("=", 1))
            else None
        ),
        metavar="[IMAGE=]MASK",
    )
    mask_dtype: str = newer_flag(
        "uint8",
        "Data type of mask values; uint16, for example for depth maps and instance ids, makes 16-bit PNGs",
        choices=("uint8", "uint16"),
    )
    mask_colors: MaskColors = newer_flag(
        (),
        "File with the class of each colour in masks, for example labelmap.txt or class_dict.csv",
        parse=parse_mask_colors,
        reads_file=True,
        default_words="masks of colours are rejected",
        metavar="FILE",
        to_json=dict,
    )
    masks_seen: str = newer_flag(
        "",
        "Orientation that masks of images with an EXIF rotation refer to, if image sizes do not show it",
        choices=("", "stored", "upright"),
        default_words="such images are rejected",
    )

    def resolve(self, config: "ImagesConfig") -> Self:
        among = config.input if self.mask_pattern and not config.annotation_flag else None
        masks = among if self.masks is None else self.masks
        return self if masks is None else replace(self, masks=inside_archive(masks))

    def find_companions(self, config: "ImagesConfig") -> "AddedCompanions":
        from shardmill.addons.masks.folder import MaskFolder
        from shardmill.transforms.inputs.found_files import AddedCompanions, Companion, companion_feature

        names = listed([f"{value} {name!r}" for value, (name, _) in enumerate(self.mask_colors)], 5, ", …")
        notice = f"values of masks are the places of {len(self.mask_colors):,} classes in --mask_colors: {names}"
        notices = (notice,) if self.mask_colors else ()
        codec = self.codec
        in_columns = (Companion(companion_feature(name), name, codec, "--mask_column") for name in self.mask_column)
        if self.masks is None:
            return AddedCompanions(self.given, tuple(in_columns), notices=notices)
        folder, root = self.masks.rstrip("/") or "/", config.root
        is_elsewhere = config.annotation_flag or not f"{folder}/".startswith(f"{root}/")
        finder = partial(MaskFolder, folder, self.mask_pattern, None if is_elsewhere else folder[len(root) + 1 :])
        return AddedCompanions(self.given, (Companion("mask", codec=codec), *in_columns), folder, finder, notices)

    @property
    def codec(self) -> "MaskCodec":
        from shardmill.addons.masks.encoding import MaskCodec

        return MaskCodec(self.masks_seen, self.mask_dtype, tuple(color for _, color in self.mask_colors))

    @property
    def given(self) -> str:
        """Return the flag that gives masks; "" for none."""
        if self.masks is not None:
            return f"--masks {self.masks}"
        return f"--mask_column {quote(*self.mask_column)}" if self.mask_column else ""

    def check(self, config: "ImagesConfig") -> None:
        from shardmill.transforms.inputs.listing import is_glob
        from shardmill.transforms.inputs.manifest_table import FILE_COLUMNS

        given = self.given or config.added.flag  # of an add-on that draws masks
        for name, value in (
            (f"--masks_seen {self.masks_seen}", self.masks_seen),
            (f"--mask_dtype {self.mask_dtype}", self.mask_dtype != "uint8"),
            ("--mask_colors", self.mask_colors and not self.given),
        ):
            if value and (not given or name == "--mask_colors"):
                raise UserError(f"{name} is about the masks of --masks or --mask_column")
        # Annotations name the images, wherever masks are
        inside = "" if self.masks is None or config.annotation_flag else f"{self.masks.rstrip('/')}/"
        is_inside = inside.startswith(f"{config.root}/") and not self.mask_pattern
        folder = inside.removeprefix(f"{config.root}/").split("/")[0]
        used = [name for name in self.mask_column if name in (config.label_column, "split", *FILE_COLUMNS)]
        for is_wrong, problem in (
            (
                self.mask_dtype == "uint8" and len(self.mask_colors) > 256,
                f"--mask_colors has {len(self.mask_colors):,} classes; give --mask_dtype uint16",
            ),
            (
                self.mask_pattern and self.masks is None,
                f"--mask_pattern {self.mask_pattern} is about the masks of --masks; of a --manifest, --mask_column says"
                " which column names them",
            ),
            (
                self.masks is not None and config.manifest,
                f"{given} is about the images of {alternatives(['--input', *source_flags()])}; --mask_column"
                " says which column of a --manifest names them",
            ),
            (self.masks is not None and is_glob(self.masks), f"{given}: expected a folder, not a glob"),
            (
                inside and is_inside,
                f"{given} is in --input {config.input}, so its masks would be read as images; give --input the folder"
                f" of the images alone, next to {folder}/, or --mask_pattern, how masks are called",
            ),
            (
                self.mask_column and not config.manifest,
                f"{given} is about a --manifest; of the images of {config.source}, --masks is the folder of the masks",
            ),
            (used, f"{given}: the column {', '.join(used)} is used for something else already; give another one"),
        ):
            if is_wrong:
                raise UserError(problem)


OPTIONS = MaskOptions
