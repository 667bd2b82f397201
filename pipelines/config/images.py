"""The configuration of `shardmill images`, with its pixel options."""

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Self

from shardmill.addons import registry
from shardmill.data import features
from shardmill.errors import UserError
from shardmill.flag_values import OptionValueError
from shardmill.installed import install_hint
from shardmill.pipelines.config.files import ListedFilesConfig, tree_flag
from shardmill.text import alternatives
from shardmill.transforms.features.options import AddOnOptions
from shardmill.transforms.inputs.folders import IMAGES, FileKind
from shardmill.transforms.options import image_options
from shardmill.transforms.options.declare import flag, newer_flag, or_none

if TYPE_CHECKING:
    from shardmill.transforms.files.image_codec import Reencode
    from shardmill.transforms.files.image_objects import ObjectNames
    from shardmill.transforms.files.references import PlanOptions
    from shardmill.transforms.inputs.found_files import AddedCompanions, Companion, CompanionCodec
    from shardmill.transforms.inputs.manifest_files import ObjectsColumn

MAX_SIDE = 65_500  # pixels: the limit of JPEG encoders
DEFAULT_QUALITY = 95  # of JPEG: beyond it Pillow's files grow without a visible gain
# To plan with: of re-encoded photographs, jpeg at quality 95, and png; of a PNG of a few areas
_BYTES_PER_PIXEL = {"jpeg": 0.5, "png": 2.0, "": 0.5, "mask": 0.05}


def parse_resolution(value: Any) -> tuple[int, int]:
    """Parse (width, height) in pixels from `224x224` or a pair; raises OptionValueError."""
    text = value if isinstance(value, str) else "x".join(map(str, value))
    match = re.fullmatch(r"(\d+)x(\d+)", text.lower())
    if match is None or not 0 < int(match[1]) <= MAX_SIDE or not 0 < int(match[2]) <= MAX_SIDE:
        raise OptionValueError(f"{text!r} is not WIDTHxHEIGHT in pixels, such as 224x224")
    return int(match[1]), int(match[2])


def parse_bands(value: Any) -> tuple[int, ...]:
    """Parse the numbers of bands, one or three, from `4,3,2` or numbers; raises OptionValueError."""
    words = value.split(",") if isinstance(value, str) else list(map(str, value))
    if len(words) not in (0, 1, 3) or not all(word.isdecimal() and int(word) for word in words):
        raise OptionValueError(f"{value!r} is not one or three numbers of bands from 1, such as 1,2,3")
    return tuple(map(int, words))


def parse_coordinates(value: Any) -> tuple[tuple[str, str], ...]:
    """Parse (column, kind) pairs from `boxes=relative,vector=none`, pairs or a mapping; raises OptionValueError."""
    from shardmill.transforms.layout.objects import KINDS
    from shardmill.transforms.options.job_options import parse_words

    return parse_words(value, KINDS, "kind", "boxes=relative")


@dataclass(frozen=True, kw_only=True)
class CompanionOptions(AddOnOptions, ABC):
    """Options of an add-on that gives each image a further file, such as a mask. A job has at most one such add-on."""

    title: ClassVar[str] = "masks of images"
    precedes: ClassVar[str] = "verify"

    @property
    def codec(self) -> "CompanionCodec | None":
        """Return how files of masks are stored; None if the add-on stores none."""
        return None

    def resolve(self, config: "ImagesConfig") -> Self:
        """Return the options with what those of a configuration say about them; called once, before it is resolved."""
        return self

    @abstractmethod
    def find_companions(self, config: "ImagesConfig") -> "AddedCompanions":
        """Return the files that images get."""


@dataclass(frozen=True, kw_only=True)
class ImagesConfig(image_options.ObjectOptions, ListedFilesConfig):
    """The configuration of `shardmill images`."""

    title: ClassVar[str] = "images"
    file_kind: ClassVar[FileKind] = IMAGES
    _has_several_files: ClassVar[bool] = True

    input: str | None = tree_flag("jpg")
    verify: str = flag("header", "Check of each image: its header, or all of its pixels", choices=image_options.VERIFY)
    image_format: str = flag(
        "",
        "Format in which to re-encode every image",
        choices=("", *image_options.FORMATS),
        default_words="keep the bytes",
        to_json=or_none,
    )
    resize: tuple[int, int] | None = flag(
        None,
        "Size to which each image is resized, for example 224x224, after it is turned upright and converted to RGB",
        parse=parse_resolution,
    )
    resize_mode: str = flag(
        "exact",
        "Way to fit another aspect ratio into --resize: stretch (exact), crop (cover) or pad (contain)",
        choices=image_options.RESIZE_MODES,
    )
    jpeg_quality: int = flag(
        DEFAULT_QUALITY,
        "Quality of re-encoded images, 1 to 100",
        check=lambda quality: None if 1 <= quality <= 100 else "expected 1 to 100",
    )
    image_bands: tuple[int, ...] = newer_flag(
        (),
        "Bands of each TIFF to store, for example 1,2,3 or 4; needs --image_format or --resize",
        parse=parse_bands,
        default_words="TIFFs with more bands than an image holds are rejected",
    )
    on_several_frames: str = newer_flag(
        "reject",
        "Action for a re-encoded image with several frames or pages: reject it, or store the first",
        choices=("reject", "first"),
    )
    max_pixels: int = image_options.max_pixels_flag()
    coordinates: tuple[tuple[str, str], ...] = flag(
        (),
        "Unit of columns with coordinates, for images that are resized or turned upright: relative, pixels or none",
        parse=parse_coordinates,
        to_json=dict,
    )

    def resolve(self) -> Self:
        """Return this configuration with the files that add-ons find, and the renames of --feature_names."""
        add_ons = (each.resolve(self) if isinstance(each, CompanionOptions) else each for each in self.add_ons)
        found = super(ImagesConfig, replace(self, add_ons=tuple(add_ons))).resolve()
        found = replace(found, objects_column=found._find_objects_column())
        if found.feature_names != features.OBJECT_DETECTION or found.rename:
            return found
        return replace(found, rename=features.OBJECT_DETECTION_RENAMES)

    def check(self) -> None:
        super().check()
        self.check_has_objects(self.has_objects, self.annotating.used)
        if self.resize is None and self.resize_mode != "exact":
            raise UserError(f"--resize_mode {self.resize_mode} needs --resize")
        if self.jpeg_quality != DEFAULT_QUALITY and (not self.is_reencoding or self.image_format == "png"):
            raise UserError(
                f"--jpeg_quality {self.jpeg_quality} needs --resize or --image_format jpeg: no JPEG is made without"
            )
        for name, value in (
            ("--image_bands", ",".join(map(str, self.image_bands))),
            ("--on_several_frames", self.on_several_frames.removeprefix("reject")),
        ):
            if value and not self.is_reencoding:
                raise UserError(f"{name} {value} needs --image_format or --resize: without, images stay unchanged")
        if self.image_bands and find_spec("tifffile") is None:
            raise UserError(f"--image_bands needs the library tifffile; {install_hint('tiff')}")
        if self.max_pixels != image_options.MAX_PIXELS and self.verify == "none" and not self.is_reencoding:
            raise UserError(f"--max_pixels {self.max_pixels} contradicts --verify none, which looks into no image")
        if self.feature_names == features.OBJECT_DETECTION and self.rename != features.OBJECT_DETECTION_RENAMES:
            raise UserError(
                f"--feature_names {self.feature_names} says what every feature is called; drop it or --rename"
            )
        if self.has_objects and self.verify == "none" and not self.is_reencoding:
            raise UserError(f"--verify none contradicts {self.source}: boxes are checked by the size of their image")
        self._check_companions()
        if self.coordinates and (not self.is_reencoding or not self.manifest):
            raise UserError(
                "--coordinates is about the columns of a --manifest whose images are re-encoded, by --resize or"
                " --image_format; as they are, images and columns agree"
            )

    def _check_companions(self) -> None:
        from shardmill.transforms.inputs.manifest_table import FILE_COLUMNS, RESERVED

        if (given := self.added.flag) and self.stream is not None:
            only = given.partition(" ")[0]
            raise UserError(f"{self.stream} and {only}: the function makes the examples; leave one of them out")
        if given and self.verify == "none" and not self.is_reencoding:
            raise UserError(f"--verify none contradicts {given}: masks are checked by the size of their image")
        named = [item.column for item in self.added.companions if item.column]
        columns = [*(self.file_columns or (FILE_COLUMNS[0],)), *named]
        for column in columns:
            if columns.count(column) > 1:
                raise UserError(f"the column {column} is there twice among the columns that name files")
        for name in (names := [item.feature for item in self.companions]):
            if name in (*RESERVED, "label", "split") or names.count(name) > 1:
                raise UserError(
                    f"{given or f'--file_column {self.file_column}'}: its feature would be called {name!r},"
                    " which each example has already; rename the column"
                )

    @property
    def is_reencoding(self) -> bool:
        """Return True if images are decoded and re-encoded."""
        return bool(self.image_format) or self.resize is not None

    @property
    def is_decoding(self) -> bool:
        """Return True if pixels are decoded, outside the interpreter, so that one thread per core pays."""
        return self.is_reencoding or self.verify == "decode" or any(options.observer for options in self.add_ons)

    @property
    def reencode(self) -> "Reencode | None":
        """Return how images are re-encoded; None if their bytes pass through."""
        from shardmill.transforms.files.image_codec import Reencode

        if not self.is_reencoding:
            return None
        keeps_first = self.on_several_frames == "first"
        return Reencode(
            self.image_format, self.resize, self.resize_mode, self.jpeg_quality, self.image_bands, keeps_first
        )

    @property
    def input_notices(self) -> tuple[str, ...]:
        return (*super().input_notices, *self.added.notices)

    @property
    def added(self) -> "AddedCompanions":
        kinds = [each.find_companions(self) for each in self.add_ons if isinstance(each, CompanionOptions)]
        found = [each for each in kinds if each.flag]
        if len(found) > 1:
            raise UserError(f"{found[0].flag} and {found[1].flag} both give masks; leave one of them out")
        return found[0] if found else super().added

    @property
    def companions(self) -> "tuple[Companion, ...]":
        from shardmill.transforms.inputs.found_files import Companion, companion_feature

        further = (Companion(companion_feature(column), column) for column in self.file_columns[1:])
        in_folder = (item for item in self.added.companions if not item.column)
        return (*in_folder, *further, *(item for item in self.added.companions if item.column))

    def _check_inputs(self) -> None:
        from shardmill.transforms.inputs.listing import is_glob

        if not self.annotation_flag:
            if self.input is None and not self.manifest and (flags := alternatives(registry.source_flags())):
                raise UserError(
                    "give either --input, a folder or a glob, or --manifest, a .csv, .jsonl or .parquet file, or what"
                    f" annotates images: {flags}"
                )
            super()._check_inputs()
        elif self.manifest:
            raise UserError(f"{super().source} and {self.annotation_flag} both list the images; give one")
        elif self.folders is not None:
            raise UserError(
                f"--folders {self.folders} is about the folders of --input; {self.annotation_flag} says the splits"
            )
        elif self.input is not None and ((is_unused := "input" not in self.annotating.used) or is_glob(self.input)):
            where = "not needed: the images are found from there" if is_unused else "a folder, not a glob"
            raise UserError(f"--input {self.input}: with {self.annotation_flag} it is {where}")

    @property
    def has_objects(self) -> bool:
        return bool(self.annotation_flag) or self.objects_column is not None

    def _find_objects_column(self) -> "ObjectsColumn | None":
        """Return the manifest's column of objects in images, or None. --labels_file names ids without names."""
        from shardmill.transforms.inputs.manifest_table import find_objects_column

        found = find_objects_column(self.manifests[0].path) if self.manifests else None
        if found is None:
            return None
        names = tuple(self.classes.class_names() or ()) if found.has_unnamed_ids else found.names
        return replace(found, names=names, image_id=self.object_names.image_id)

    @property
    def object_names(self) -> "ObjectNames":
        """Return the feature names of objects in images."""
        from shardmill.transforms.files.image_objects import OBJECT_DETECTION_NAMES, TFDS_NAMES

        return OBJECT_DETECTION_NAMES if self.feature_names == features.OBJECT_DETECTION else TFDS_NAMES

    @property
    def source(self) -> str:
        return self.annotation_flag or super().source

    @property
    def libraries(self) -> tuple[str, ...]:
        return (*super().libraries, *(["pillow"] if self.is_reencoding else []))

    @property
    def resolve_options(self) -> "PlanOptions":
        """Return the options that keys and sizes are computed with; --resize gives all images about one size."""
        options = super().resolve_options
        if self.resize is None:
            return options
        pixels, of_image = self.resize[0] * self.resize[1], _BYTES_PER_PIXEL[self.image_format]
        sizes = (of_image, *(_BYTES_PER_PIXEL["mask"] if item.codec else of_image for item in self.companions))
        return replace(options, record_bytes=sum(int(pixels * size) for size in sizes))

    def to_json(self) -> dict[str, Any]:
        """Return the options that shape the output, for the manifest; some are left out if they have no use."""
        of_objects = () if self.has_objects else ("on_bad_box", "boxes_seen")
        shaping = {name: value for name, value in super().to_json().items() if name not in of_objects}
        if self.annotation_flag:
            shaping["annotations"] = self.annotation_flag.partition(" ")[0].removeprefix("--")
        elif self.has_objects:
            shaping["annotations"] = "manifest"
        return {name: value for name, value in shaping.items() if value or name != "coordinates"}
