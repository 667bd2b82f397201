"""What the user must be told of files that are examples, at the end."""

from collections.abc import Sequence

from shardmill.errors import UserError
from shardmill.metadata.labels import ClassNames
from shardmill.transforms.inputs.file_kind import IMAGES
from shardmill.transforms.inputs.summary import InputSummary
from shardmill.transforms.layout.file_options import LayoutOptions
from shardmill.transforms.layout.notices import label_notices, numbered_notice
from shardmill.transforms.stores import storage


def missing_notices(summary: InputSummary, options: LayoutOptions) -> list[str]:
    """What must be said of files that a manifest names and that are not there; a UserError where there is no other."""
    said = []
    listed = listed_by(options)
    for number, name in summary.missing.values():
        elsewhere = name.startswith("/") or not storage.is_local(name)
        where = f"{name!r} was looked for" + ("" if elsewhere else f" in {options.root}/")
        if not summary.records:
            raise UserError(
                f"{options.source}: none of its {number:,} files is there; {where}; --file_root is the folder of the"
                " files, seen from the manifest's, --file_suffix what their names lack, such as .jpg"
            )
        said.append(
            f"{number:,} file{'' if number == 1 else 's'} of {listed} {'is' if number == 1 else 'are'} missing: {where}"
        )
    return said


def listed_by(options: LayoutOptions) -> str:
    """What names the files, where something does."""
    return "the annotations" if options.annotated and not options.in_manifest else "the manifest"


def numbered_objects(objects: ClassNames | None, options: LayoutOptions) -> list[str]:
    """That the classes of objects have no names but their ids."""
    if objects is None or not options.numbered:
        return []
    return [numbered_notice(len(objects))]


def name_notices(summary: InputSummary, options: LayoutOptions) -> list[str]:
    """That columns of which every value names an image file are stored as these names."""
    of_images = options.kind == IMAGES
    return [
        f"column {column!r} names image files, such as {name!r}, and is stored as their names: what these files hold is"
        " in no example"
        + (
            f"; --mask_column {column} makes masks of them, --file_column {options.file_column},{column} further images"
            if of_images
            else ""
        )
        for column, (number, name) in sorted(summary.image_names.items())
        if number == summary.columns[column].present
    ]


def label_list_notices(summary: InputSummary, options: LayoutOptions) -> list[str]:
    """What must be said of labels of which a file may have several."""
    lists, single = summary.label_lists["lists"], summary.label_lists["single"]
    if not lists:
        return []
    odd = {("label", what): number for what, number in summary.label_lists.items()}
    said = label_notices({**odd, ("label", "empty"): summary.labels[""]}, options.separators)
    if single:
        said.append(f"the label is a list in {lists:,} rows, one class in {single:,}: it is stored as a list in all")
    return said


def class_notices(class_names: ClassNames | None) -> list[str]:
    """That ids are not the numbers that classes are called."""
    names: Sequence[str] = class_names.names if class_names else ()
    if (
        names
        and all(name.isdecimal() for name in names)
        and any(int(name) != index for index, name in enumerate(names))
    ):
        wrong = next(name for index, name in enumerate(names) if int(name) != index)
        return [
            f"all class names are numbers, but ids follow the sorted names: class {wrong!r} has id"
            f" {names.index(wrong)}; give --labels_file for another order"
        ]
    return []
