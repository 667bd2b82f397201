"""Options for masks that are drawn from run lengths and polygons."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from shardmill.addons import registry
from shardmill.errors import UserError
from shardmill.pipelines.config.images import CompanionOptions
from shardmill.text import alternatives
from shardmill.transforms.options.declare import newer_flag
from shardmill.transforms.options.job_options import parse_path

if TYPE_CHECKING:
    from shardmill.pipelines.config.images import ImagesConfig
    from shardmill.transforms.inputs.found_files import AddedCompanions


@dataclass(frozen=True, kw_only=True)
class RunLengthOptions(CompanionOptions):
    """Options for masks that are in no files of their own."""

    run_lengths: str | None = newer_flag(
        None,
        "CSV file with the run lengths of masks, a row for each object, for example train.csv with EncodedPixels",
        parse=parse_path,
        metavar="FILE",
        to_json=bool,
    )
    run_order: str = newer_flag(
        "",
        "Order of the pixels that run lengths number: down the columns, or along the rows",
        choices=("", "columns", "rows"),
        default_words="columns, with a notice",
    )
    unlisted_masks: str = newer_flag(
        "reject",
        "Action for an image without a row in the file of --run_lengths: reject it, or store an empty mask",
        choices=("reject", "empty"),
    )
    masks_of: str = newer_flag(
        "",
        "Annotations to draw as masks: the polygons and run lengths of --coco",
        choices=("", "coco"),
        default_words="no masks are drawn",
    )
    mask_values: str = newer_flag(
        "classes",
        "Values of drawn masks: class ids, class ids plus 1, or the number of each object in its image",
        choices=("classes", "classes+1", "instances"),
    )

    @property
    def given(self) -> str:
        """Return the flag that gives masks; "" for none."""
        named = {"--masks_of": self.masks_of, "--run_lengths": self.run_lengths}
        return next((f"{flag} {value}" for flag, value in named.items() if value), "")

    def find_companions(self, config: "ImagesConfig") -> "AddedCompanions":
        from shardmill.addons.run_lengths.drawing import DrawingCodec
        from shardmill.addons.run_lengths.table import RunLengthTable
        from shardmill.transforms.inputs.found_files import AddedCompanions, Companion

        if not self.given:
            return AddedCompanions()
        # Drawn masks are stored as files of masks are, by the add-on that has the options for these
        kinds = (kind() for kind in registry.options_for("images") if issubclass(kind, CompanionOptions))
        others = (*(each for each in config.add_ons if isinstance(each, CompanionOptions)), *kinds)
        files = next(codec for each in others if (codec := each.codec) is not None)
        codec = DrawingCodec(files, self.run_order, self.mask_values)
        companions = (Companion("mask", codec=codec),)
        if self.run_lengths is None:
            what = "the number of the object" if self.mask_values == "instances" else "the id of its category"
            notice = f"a value of a mask is {what}{' plus 1' * (self.mask_values == 'classes+1')}, and 0 without object"
            return AddedCompanions(self.given, companions, notices=(notice,), of_objects=True)
        finder = partial(RunLengthTable, self.run_lengths, self.mask_values, self.unlisted_masks == "empty")
        notice = (
            "run lengths number the pixels of a mask down its columns, as most competitions of Kaggle do; if they"
            " number them along the rows, give --run_order rows"
        )
        return AddedCompanions(self.given, companions, self.run_lengths, finder, () if self.run_order else (notice,))

    def check(self, config: "ImagesConfig") -> None:
        images = alternatives(["--input", *registry.source_flags()])
        of_table = self.run_order or self.unlisted_masks != "reject"
        for is_wrong, problem in (
            (self.masks_of and self.run_lengths, f"{self.given} and --run_lengths both give masks"),
            (
                self.masks_of and not config.annotation_flag.startswith(f"--{self.masks_of} "),
                f"{self.given} needs --coco, the file with polygons",
            ),
            (of_table and self.run_lengths is None, f"{self.first_given_flag} needs --run_lengths"),
            (not self.given, f"{self.first_given_flag} needs --run_lengths or --masks_of"),
            (
                self.run_lengths and config.manifest,
                f"--run_lengths {self.run_lengths} is about the images of {images}; leave out --manifest, and give"
                " --input the folder of the images",
            ),
        ):
            if is_wrong:
                raise UserError(problem)


OPTIONS = RunLengthOptions
