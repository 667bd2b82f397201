"""What `shardmill images` is told."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from shardmill.errors import UserError
from shardmill.features import object_detection
from shardmill.pipelines.config.archives import inside_archive
from shardmill.pipelines.config.listed_files import ListedFilesConfig, tree_flag
from shardmill.pipelines.config.pixels import PixelOptions
from shardmill.transforms.inputs.file_kind import IMAGES, FileKind
from shardmill.transforms.inputs.listing import is_glob
from shardmill.transforms.options.annotations import AnnotationOptions
from shardmill.transforms.options.labels import LabelOptions
from shardmill.transforms.options.masks import MaskOptions
from shardmill.transforms.stores import storage

if TYPE_CHECKING:
    from shardmill.transforms.files.images.object_names import ObjectNames
    from shardmill.transforms.inputs.annotations.huggingface import ObjectsColumn
    from shardmill.transforms.inputs.annotations.source import AnnotationSource
    from shardmill.transforms.inputs.companions import Companion
    from shardmill.transforms.layout.file_options import LayoutOptions


@dataclass(frozen=True, kw_only=True)
class ImagesConfig(PixelOptions, MaskOptions, AnnotationOptions, ListedFilesConfig):
    """What `shardmill images` is told."""

    title: ClassVar[str] = "images"

    input: str | None = tree_flag("jpg")

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
        if self.has_objects and self.verify == "none" and not self.reencodes:
            raise UserError(f"--verify none contradicts {self.source}: boxes are checked by the size of their image")
        self._check_masks()
        if self.coordinates and (not self.reencodes or not self.manifest):
            raise UserError(
                "--coordinates is about the columns of a --manifest whose images are re-encoded, by --resize or"
                " --image_format; as they are, images and columns agree"
            )

    def _check_masks(self) -> None:
        """Check what is said of further files; raises UserError."""
        from shardmill.transforms.inputs.manifests.names import FILE_COLUMNS, RESERVED

        asked = self.masks_asked
        if self.masks_seen and not asked:
            raise UserError(f"--masks_seen {self.masks_seen} is about the masks of --masks or --mask_column")
        if self.mask_dtype != "uint8" and not asked:
            raise UserError(f"--mask_dtype {self.mask_dtype} is about the masks of --masks or --mask_column")
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
        from shardmill.transforms.inputs.companions import IN_FOLDER, columns_of

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
        from shardmill.transforms.inputs.annotations.coco import CocoSource, coco_root
        from shardmill.transforms.inputs.annotations.voc import VocSource, voc_root
        from shardmill.transforms.inputs.annotations.yolo import YoloSource, yolo_root

        if self.coco:
            root = (
                self.input.rstrip("/") or "/" if self.input is not None else coco_root([path for _, path in self.coco])
            )
            return CocoSource(self.coco, root, self.input is not None, self.file_root)
        if self.voc is not None:
            return VocSource(self.voc, voc_root(self.voc), self.splits is None, self.masks_folder)
        return YoloSource(self.yolo, yolo_root(self.yolo), self.masks_folder) if self.yolo is not None else None

    @property
    def has_objects(self) -> bool:
        """As the base says."""
        return bool(self.annotations) or self.objects_column is not None

    @cached_property
    def objects_column(self) -> "ObjectsColumn | None":
        """As the base says; by the names of --labels_file, where classes are ids that nobody else names."""
        from shardmill.transforms.inputs.manifests.objects import told_objects

        found = told_objects(self.manifests[0].path) if self.manifest else None
        if found is None:
            return None
        names = tuple(self.part(LabelOptions).names_of() or ()) if found.numbered and not found.names else found.names
        return replace(found, names=names, image_id=self.object_names.image_id)

    @property
    def object_names(self) -> "ObjectNames":
        """What the objects in images are called."""
        from shardmill.transforms.files.images.object_names import OBJECT_DETECTION, TFDS

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
        told = self.objects_column
        return replace(
            super().layout_options,
            annotated=self.has_objects,
            in_manifest=told is not None,
            numbered=told is not None and told.numbered and not told.names,
        )

    @property
    def libraries(self) -> tuple[str, ...]:
        """Those whose release can change the bytes."""
        return (*super().libraries, *(["pillow"] if self.reencodes else []))

    @property
    def record_bytes(self) -> int | None:
        """The bytes of every encoded image, about, where they are re-encoded to one size."""
        masks = sum(item.is_mask for item in self.companions)
        return self.encoded_bytes(1 + len(self.companions) - masks, masks)

    @property
    def kind(self) -> FileKind:
        """The files that a folder is searched for."""
        return IMAGES

    def to_json(self) -> dict[str, Any]:
        """As the base says; without `coordinates` and `near_duplicates` where nothing was said of any, and without what
        is about objects where none are annotated."""
        left_out = ("coordinates", "near_duplicates")
        of_objects = () if self.has_objects else ("on_bad_box", "boxes_seen")
        shaping = {name: value for name, value in super().to_json().items() if name not in of_objects}
        if self.annotations:
            shaping["annotations"] = self.annotations.partition(" ")[0].removeprefix("--")
        elif self.has_objects:
            shaping["annotations"] = "manifest"
        return {name: value for name, value in shaping.items() if name not in left_out or value}
