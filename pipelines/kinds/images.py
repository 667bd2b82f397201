"""`shardmill images`: image files, a file an example."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

from pipelines.config.files import ListedFilesConfig, inside_archive
from pipelines.kinds.kind import Kind
from shardmill.errors import UserError
from shardmill.features import object_detection
from shardmill.installation.extras import install_hint
from transforms.files.images.limits import FORMATS, MAX_PIXELS, RESIZE_MODES, VERIFY
from transforms.inputs.file_kind import IMAGES, FileKind
from transforms.inputs.listing import is_glob
from transforms.options.annotations import AnnotationOptions
from transforms.options.declare import ValueMistake, flag
from transforms.options.masks import MaskOptions
from transforms.options.output import parse_path
from transforms.options.pictures import max_pixels_flag
from transforms.stores import storage

if TYPE_CHECKING:
    from pipelines.graphs.files import FileRoute
    from pipelines.graphs.jobs import Job
    from shardmill.features.feature import Features
    from transforms.files.images.codec import Reencode
    from transforms.files.images.object_names import ObjectNames
    from transforms.inputs.annotations.objects import Member
    from transforms.inputs.annotations.source import AnnotationSource
    from transforms.inputs.companions import Companion
    from transforms.inputs.summary import InputSummary
    from transforms.layout.files import Layout, LayoutOptions
    from transforms.statistics.files import SplitStats

MAX_SIDE = 65_500  # pixels: the limit of JPEG encoders
DEFAULT_QUALITY = 95  # of JPEG: beyond it Pillow's files grow without a visible gain
# Bytes a pixel of re-encoded photographs, to plan with: jpeg at quality 95, and png.
_BYTES_PER_MASK_PIXEL = 0.05  # of a PNG of a few areas
_BYTES_PER_PIXEL = {"jpeg": 0.5, "png": 2.0, "": 0.5}


def parse_resolution(value: Any) -> tuple[int, int]:
    """(width, height) in pixels from `224x224`, or a pair of them.

    Raises:
      ValueMistake: it is none, or larger than encoders take.
    """
    text = value if isinstance(value, str) else "x".join(map(str, value))
    match = re.fullmatch(r"(\d+)x(\d+)", text.lower())
    if match is None or not 0 < int(match[1]) <= MAX_SIDE or not 0 < int(match[2]) <= MAX_SIDE:
        raise ValueMistake(f"{text!r} is not WIDTHxHEIGHT in pixels, such as 224x224")
    return int(match[1]), int(match[2])


def parse_coordinates(value: Any) -> tuple[tuple[str, str], ...]:
    """((column, kind), …) from `boxes=relative,vector=none`, pairs, or a mapping.

    Raises:
      ValueMistake: one of them is none, or a column is there twice.
    """
    from transforms.layout.coordinates import KINDS

    if isinstance(value, str):
        pairs = [tuple(item.strip().rpartition("=")[::2]) for item in value.split(",")]
    else:
        pairs = [tuple(pair) for pair in (value.items() if isinstance(value, Mapping) else value)]
    for name, kind in pairs:
        if not name or kind not in KINDS:
            raise ValueMistake(f"{value!r} is not column=kind,… with each kind one of {', '.join(KINDS)}")
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise ValueMistake(f"{value!r} names the column {name!r} twice")
    return tuple((name, kind) for name, kind in pairs)


@dataclass(frozen=True, kw_only=True)
class ImagesConfig(MaskOptions, AnnotationOptions, ListedFilesConfig):
    """What `shardmill images` is told."""

    title: ClassVar[str] = "images"

    input: str | None = flag(
        None,
        "a folder (<label>/*.jpg, <split>/<label>/*.jpg, or flat) or a glob; local, gs://, s3://, az://",
        parse=parse_path,
        group="input",
        shapes=False,
    )
    verify: str = flag("header", "how far each image is checked", choices=VERIFY)
    image_format: str = flag(
        "",
        "re-encode every image",
        choices=("", *FORMATS),
        default_words="bytes untouched",
        to_json=lambda name: name or None,
    )
    resize: tuple[int, int] | None = flag(
        None, "WIDTHxHEIGHT: decode, turn upright, make RGB, resize, re-encode", parse=parse_resolution, to_json=list
    )
    resize_mode: str = flag("exact", "stretch, crop to fill, or pad to fit", choices=RESIZE_MODES)
    jpeg_quality: int = flag(
        DEFAULT_QUALITY,
        "of re-encoded images",
        check=lambda quality: None if 1 <= quality <= 100 else "expected 1 to 100",
    )
    max_pixels: int = max_pixels_flag()
    coordinates: tuple[tuple[str, str], ...] = flag(
        (),
        "column=relative|pixels|none,…: what columns like boxes hold, where images are resized or turned upright",
        parse=parse_coordinates,
        to_json=dict,
    )
    near_duplicates: bool = flag(False, "find pictures that look alike, by a perceptual hash: decodes every image")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.masks is not None:
            object.__setattr__(self, "masks", inside_archive(self.masks))
        if self.feature_names == object_detection.NAME:
            if self.rename not in ((), object_detection.RENAMES):
                raise UserError(
                    f"--feature_names {self.feature_names} says what every feature is called; drop it or --rename"
                )
            object.__setattr__(self, "rename", object_detection.RENAMES)
        if self.resize is None and self.resize_mode != "exact":
            raise UserError(f"--resize_mode {self.resize_mode} needs --resize")
        if self.jpeg_quality != DEFAULT_QUALITY and (not self.reencodes or self.image_format == "png"):
            raise UserError(
                f"--jpeg_quality {self.jpeg_quality} needs --resize or --image_format jpeg: no JPEG is made without"
            )
        if self.max_pixels != MAX_PIXELS and self.verify == "none" and not self.reencodes:
            raise UserError(
                f"--max_pixels {self.max_pixels} contradicts --verify none, which does not look into images"
            )
        if self.annotations and self.verify == "none" and not self.reencodes:
            raise UserError(
                f"--verify none contradicts {self.annotations}: boxes are checked by the size of their image"
            )
        self._check_masks()
        if self.coordinates and (not self.reencodes or not self.manifest):
            raise UserError(
                "--coordinates is about the columns of a --manifest whose images are re-encoded, by --resize or"
                " --image_format; as they are, images and columns agree"
            )
        if self.near_duplicates and find_spec("imagehash") is None:
            raise UserError(f"--near_duplicates needs the library imagehash; {install_hint('near_duplicates')}")

    def _check_masks(self) -> None:
        """Check what is said of further files; raises UserError."""
        from transforms.inputs.manifests.names import FILE_COLUMNS, RESERVED

        asked = self.masks_asked
        if self.masks_seen and not asked:
            raise UserError(f"--masks_seen {self.masks_seen} is about the masks of --masks or --mask_column")
        if asked and self.verify == "none" and not self.reencodes:
            raise UserError(f"--verify none contradicts {asked}: masks are checked by the size of their image")
        if self.masks is not None and self.manifest:
            raise UserError(
                f"{asked} is about the images of --input, --coco, --voc or --yolo; --mask_column says which column of a"
                " --manifest names them"
            )
        if self.masks is not None and is_glob(self.masks):
            raise UserError(f"{asked}: expected a folder, not a glob")
        beside = self.masks_folder if not self.annotations else None  # which name the images, wherever masks lie
        if beside is not None and (inside := f"{beside}/").startswith(f"{self.root}/"):
            folder = inside.removeprefix(f"{self.root}/").split("/")[0]
            raise UserError(
                f"{asked} lies in --input {self.input}, of which its masks would be images; give --input the folder of"
                f" the images alone, which lies beside {folder}/"
            )
        if self.mask_column and not self.manifest:
            raise UserError(
                f"{asked} is about a --manifest; of the images of {self.source}, --masks is the folder of the masks"
            )
        columns = [*(self.file_columns or (FILE_COLUMNS[0],)), *self.mask_column]
        for column in columns:
            if columns.count(column) > 1:
                raise UserError(f"the column {column} is there twice among --file_column and --mask_column")
            if column in self.mask_column and column in (self.label_column, "split", *FILE_COLUMNS):
                raise UserError(f"{asked}: the column {column} says something else; expected one of its own")
        for name in (names := [item.feature for item in self.companions]):
            if name in (*RESERVED, "label", "split") or names.count(name) > 1:
                raise UserError(
                    f"{asked or f'--file_column {self.file_column}'}: its feature would be called {name!r}, which each"
                    " example has already; call the column otherwise"
                )

    @property
    def masks_asked(self) -> str:
        """As the base says."""
        if self.masks is not None:
            return f"--masks {self.masks}"
        return f"--mask_column {','.join(self.mask_column)}" if self.mask_column else ""

    @property
    def _several_files(self) -> bool:
        """As the base says."""
        return True

    @property
    def companions(self) -> "tuple[Companion, ...]":
        """As the base says."""
        from transforms.inputs.companions import IN_FOLDER, columns_of

        in_folder = (IN_FOLDER,) if self.masks is not None else ()
        return (*in_folder, *columns_of(self.file_columns[1:], self.mask_column))

    @property
    def _other_files(self) -> tuple[str, ...]:
        """As the base says."""
        return self.mask_column

    @property
    def _has_masks(self) -> bool:
        """As the base says."""
        return self.masks is not None

    @property
    def is_remote(self) -> bool:
        """As the base says; masks may lie elsewhere than their images."""
        return super().is_remote or (self.masks is not None and not storage.is_local(self.masks))

    @property
    def masks_folder(self) -> str | None:
        """As the base says."""
        return self.masks.rstrip("/") or "/" if self.masks is not None else None

    def _check_given(self) -> None:
        if not self.annotations:
            if self.input is None and not self.manifest:
                raise UserError(
                    "give either --input, a folder or a glob, or --manifest, a .csv, .jsonl or .parquet file, or what"
                    " annotates images: --coco, --voc or --yolo"
                )
            super()._check_given()
        elif self.manifest:
            raise UserError(f"{super().source} and {self.annotations} both list the images; give one")
        elif self.folders is not None:
            raise UserError(
                f"--folders {self.folders} is about the folders of --input; {self.annotations} says the splits"
            )
        elif self.input is not None and (not self.coco or is_glob(self.input)):
            where = "a folder, not a glob" if self.coco else "not needed: the images are found from there"
            raise UserError(f"--input {self.input}: with {self.annotations} it is {where}")

    @property
    def annotation_source(self) -> "AnnotationSource | None":
        """As the base says."""
        from transforms.inputs.annotations.coco import CocoSource, coco_root
        from transforms.inputs.annotations.voc import VocSource, voc_root
        from transforms.inputs.annotations.yolo import YoloSource, yolo_root

        if self.coco:
            root = (
                self.input.rstrip("/") or "/" if self.input is not None else coco_root([path for _, path in self.coco])
            )
            return CocoSource(self.coco, root, self.input is not None, self.file_root)
        if self.voc is not None:
            return VocSource(self.voc, voc_root(self.voc), self.splits is None, self.masks_folder)
        return YoloSource(self.yolo, yolo_root(self.yolo), self.masks_folder) if self.yolo is not None else None

    @property
    def object_names(self) -> "ObjectNames":
        """What the objects in images are called."""
        from transforms.files.images.object_names import OBJECT_DETECTION, TFDS

        return OBJECT_DETECTION if self.feature_names == object_detection.NAME else TFDS

    @property
    def source(self) -> str:
        """As the base says."""
        return self.annotations or super().source

    @property
    def root(self) -> str:
        """As the base says."""
        source = self.annotation_source
        return super().root if source is None else source.root

    @property
    def layout_options(self) -> "LayoutOptions":
        """As the base says."""
        return replace(super().layout_options, annotated=bool(self.annotations))

    @property
    def reencodes(self) -> bool:
        """Whether images are decoded and encoded anew."""
        return bool(self.image_format) or self.resize is not None

    @property
    def libraries(self) -> tuple[str, ...]:
        """Those whose release can change the bytes."""
        return (*super().libraries, *(["pillow"] if self.reencodes else []))

    @property
    def reencode(self) -> "Reencode | None":
        """How images are re-encoded, None where their bytes pass through."""
        from transforms.files.images.codec import Reencode

        return Reencode(self.image_format, self.resize, self.resize_mode, self.jpeg_quality) if self.reencodes else None

    @property
    def record_bytes(self) -> int | None:
        """The bytes of every encoded image, about, where they are re-encoded to one size."""
        if self.resize is None:
            return None
        pixels = self.resize[0] * self.resize[1]
        masks = sum(item.is_mask for item in self.companions)
        pictures = 1 + len(self.companions) - masks
        each = int(pixels * _BYTES_PER_PIXEL[self.image_format])
        return pictures * each + masks * int(pixels * _BYTES_PER_MASK_PIXEL)

    @property
    def kind(self) -> FileKind:
        """The files that a folder is searched for."""
        return IMAGES

    @property
    def decodes(self) -> bool:
        """Whether pixels are decoded: outside the interpreter, so that a thread a core pays."""
        return self.reencodes or self.verify == "decode" or self.near_duplicates

    def to_json(self) -> dict[str, Any]:
        """As the base says; without `coordinates` and `near_duplicates` where nothing was said of any, and without what
        is about objects where none are annotated."""
        left_out = ("coordinates", "near_duplicates")
        of_objects = () if self.annotations else ("on_bad_box", "boxes_seen")
        shaping = {name: value for name, value in super().to_json().items() if name not in of_objects}
        if self.annotations:
            shaping["annotations"] = self.annotations.partition(" ")[0].removeprefix("--")
        return {name: value for name, value in shaping.items() if name not in left_out or value}


def images_route(config: ImagesConfig) -> "FileRoute":
    """How images are found, read and described."""
    from pipelines.graphs.files import FileRoute, find_files
    from transforms.files.images import look
    from transforms.files.images.companions import CompanionEncoder
    from transforms.files.images.encode import ImageEncoder
    from transforms.files.images.objects import ObjectEncoder
    from transforms.inputs.annotated import ReadAnnotations
    from transforms.inputs.manifests.names import RESERVED
    from transforms.layout.coordinates import held

    declared, how, names = dict(config.coordinates), config.reencode, config.object_names
    source, objects = config.annotation_source, None
    if source is not None:
        objects = ObjectEncoder(source.members, config.on_bad_box, config.boxes_seen, config.renames, names)
    coordinates, near = held(declared), config.near_duplicates
    beside = CompanionEncoder(config.companions, config.masks_seen, config.renames) if config.companions else None
    encoder = ImageEncoder(
        config.root, config.verify, how, config.max_pixels, coordinates, config.renames, near, objects, beside
    )
    mode = None if how is None else "" if how.size is None else how.mode
    members = source.members if source is not None else ()
    describe = partial(
        _describe,
        measured=encoder.measures,
        for_tfds=config.codec.is_read_by_tfds,
        members=members,
        names=names,
        companions=config.companions,
    )
    layout = partial(_layout, coordinates=declared, mode=mode, names=names)
    if source is None:
        index = find_files(config, RESERVED)
    else:
        index = partial(
            ReadAnnotations, source, config.allow_outside, config.remembers, names.image_id, config.masks_folder
        )
    of_layout = encoder.of_layout if config.manifest or names.of_api else None
    return FileRoute(index, encoder, describe, layout, of_layout, look.method() if near else "")


def _describe(
    summary: "InputSummary",
    layout: "Layout",
    stats: "Sequence[SplitStats]",
    measured: bool,
    for_tfds: bool,
    members: "Sequence[Member]",
    names: "ObjectNames",
    companions: "Sequence[Companion]",
) -> "tuple[Features, Sequence[str]]":
    from collections import Counter

    from transforms.files.images.features import (
        animation_notices,
        box_notices,
        companion_notices,
        image_features,
        naming_notices,
        turned_notices,
    )
    from transforms.statistics.files import ImageStats

    formats: Counter[str] = sum((images.formats for images in stats if isinstance(images, ImageStats)), Counter())
    turned = sum(images.turned for images in stats if isinstance(images, ImageStats))
    boxes: Counter[str] = sum((Counter(images.boxes) for images in stats if isinstance(images, ImageStats)), Counter())
    of_tfds = [*animation_notices(formats), *naming_notices(names)] if for_tfds else []
    written = ImageStats()
    for images in stats:
        if isinstance(images, ImageStats):
            written.merge(images)
    in_order = [item.feature for item in companions if item.feature in written.beside]
    of_companions = companion_notices({name: written.beside[name] for name in in_order})
    notices = [*turned_notices(turned), *of_tfds, *box_notices(boxes), *of_companions]
    features = image_features(layout, summary.records, measured, formats, members, names, companions, written.beside)
    return features, notices


def _layout(
    summary: "InputSummary",
    options: "LayoutOptions",
    coordinates: Mapping[str, str],
    mode: str | None,
    names: "ObjectNames",
) -> "Layout":
    from transforms.layout.coordinates import check_coordinates
    from transforms.layout.files import make_layout

    layout = make_layout(summary, options)
    if mode is not None and not options.annotated:  # whose boxes are moved with the picture
        check_coordinates(layout.columns, coordinates, mode)
    if layout.object_classes is not None:
        names.check(summary.objects, layout.object_classes.names)
    return layout


def _job(config: ImagesConfig) -> "Job":
    from pipelines.graphs.jobs import file_job

    return file_job(config, images_route(config))


KINDS = (
    Kind(
        "images",
        "turn a tree of images, or a manifest that lists them, into TFRecord shards",
        "Turn a tree of images, or a manifest that lists them, into balanced, shuffled TFRecord shards.",
        ImagesConfig,
        _job,
    ),
)
