"""Find the run lengths of images in a CSV file."""

import csv
import io
import json
from collections import defaultdict

from shardmill.errors import UserError
from shardmill.text import listed, plural
from shardmill.transforms.columns.types import preview_value
from shardmill.transforms.inputs.found_files import FoundCompanion, hold_companion, remove_suffix
from shardmill.transforms.inputs.listing import report_unreadable_flag_file
from shardmill.transforms.inputs.summary import InputSummary
from shardmill.transforms.stores import storage

# Usual names of columns, without case and underscores
_COLUMNS = {
    "image": ("imageid", "image", "img", "imagename", "filename", "id"),
    "runs": ("encodedpixels", "rle", "rlemask", "maskrle", "segmentation", "annotation"),
    "class": ("classid", "class", "label", "category", "categoryid", "celltype"),
    "height": ("height", "h"),
    "width": ("width", "w"),
}
_NOTHING = ("", "-1")  # run lengths of an image without objects, as of Airbus and SIIM-ACR
_MOST = 1 << 30  # characters of one cell


class RunLengthTable:
    """The rows of a CSV file with run lengths, by image; counts which of them no image uses."""

    def __init__(
        self, path: str, values: str = "classes", empty: bool = False, identities: bool = True, annotated: bool = False
    ) -> None:
        """Read the file; raise a UserError if its columns are not found.

        `values` are those of --mask_values. With `empty`, images without a row have masks without objects.
        """
        self._path, self._values, self._empty = path, values, empty
        self._rows = defaultdict[str, list[tuple[str, str]]](list)  # class and run lengths of objects
        self._sizes: dict[str, list[int]] = {}
        self._owners: dict[str, str] = {}  # image that has the rows
        self._first_image: str | None = None
        with (
            report_unreadable_flag_file("--run_lengths", path),
            storage.check_unchanged(path),
            storage.open_read(path) as raw,
            io.TextIOWrapper(raw, "utf-8-sig", newline="") as text,
        ):
            self._read(text)
        classes = sorted({label for rows in self._rows.values() for label, _ in rows if label})
        is_numbered = all(label.isdecimal() for label in classes)
        places = enumerate(classes, 1)
        self._classes = {label: int(label) for label in classes} if is_numbered else {key: at for at, key in places}

    def _read(self, text: io.TextIOWrapper) -> None:
        limit = csv.field_size_limit(_MOST)
        several, unordered = 0, list[str]()  # rows with several runs, and images of those whose starts do not ascend
        try:
            rows = csv.reader(text)
            header = next(rows, [])
            columns = _find_columns(header, self._path)
            for number, row in enumerate(rows, 2):
                if not row:
                    continue
                if len(row) != len(header):
                    raise UserError(f"--run_lengths {self._path}: row {number} has {len(row)} cells, not {len(header)}")
                cells = {name: row[column].strip() for name, column in columns.items()}
                image, label = cells["image"], cells.get("class", "")
                if columns.get("class") == columns["image"]:
                    image, _, label = image.rpartition("_")
                objects = self._rows[image]
                if cells["runs"] not in _NOTHING:
                    objects.append((label, cells["runs"]))
                    starts = cells["runs"].split()[::2]
                    several += len(starts) > 1
                    unordered += [image] if starts != sorted(starts, key=lambda each: (len(each), each)) else []
                if cells.get("width", "").isdecimal() and cells.get("height", "").isdecimal():
                    self._sizes[image] = [int(cells["width"]), int(cells["height"])]
        except csv.Error as error:
            raise UserError(f"--run_lengths {self._path} is no CSV: {error}") from None
        finally:
            csv.field_size_limit(limit)
        if 2 * len(unordered) > several:
            raise UserError(
                f"--run_lengths {self._path}: starts do not ascend in {len(unordered):,} rows, as in {unordered[0]!r}:"
                " if they are relative to the run before, as those of SIIM-ACR, count them from the first pixel, 1"
            )

    def is_among_images(self, name: str) -> bool:
        return False

    def find(self, name: str, _: int | None = None) -> FoundCompanion | str:
        """Return the run lengths of an image, or why it has none; raise a UserError if two images have the same."""
        self._first_image = self._first_image or name
        parts = name.split("/")
        tails = ["/".join(parts[start:]) for start in range(len(parts))]
        key = next((key for tail in tails for key in (tail, remove_suffix(tail)) if key in self._rows), None)
        if key is None:
            if self._empty:
                return hold_companion(json.dumps({"size": None, "shapes": []}))
            return (
                f"no mask: {self._path} has no row of it; if that means that nothing is there, give"
                " --unlisted_masks empty"
            )
        if (owner := self._owners.setdefault(key, name)) != name:
            raise UserError(f"--run_lengths {self._path}: {key!r} would be the image {owner!r} and {name!r}")
        rows = self._rows[key]
        if self._classes and not all(label for label, _ in rows):
            return f"no mask: {self._path} has a row of it with run lengths and without a class"
        shapes = [(self._classes.get(label, 1), runs) for label, runs in rows]
        return hold_companion(json.dumps({"size": self._sizes.get(key), "shapes": shapes}))

    def finish(self) -> InputSummary:
        if self._first_image is None:
            return InputSummary()
        if not self._owners:
            raise UserError(
                f"--run_lengths {self._path}: none of the images is in it; it has {min(self._rows, default='')!r}, and"
                f" the first image is {self._first_image!r}"
            )
        unused = sorted(self._rows.keys() - self._owners.keys())
        notices = set()
        if unused:
            subject = plural(len(unused), "image is", "images are")
            notices.add(f"{subject} in --run_lengths {self._path} alone: {listed(list(map(repr, unused)), 3, ', …')}")
        if self._classes and self._values != "instances":
            shift, pairs = self._values == "classes+1", sorted(self._classes.items(), key=lambda pair: pair[1])
            shown = listed([f"{number + shift} {label!r}" for label, number in pairs], 5, ", …")
            notices.add(f"values of masks are classes of --run_lengths: {shown}; 0 is what is in no object")
        classes = frozenset((number, label) for label, number in self._classes.items())
        return InputSummary(notices=frozenset(notices), mask_classes=classes)


def _find_columns(header: list[str], path: str) -> dict[str, int]:
    """Return the places of the columns; those of images and classes are the same for `ImageId_ClassId`."""
    places = {name.strip().lower().replace("_", "").replace(" ", ""): at for at, name in enumerate(header)}
    found = {
        part: next(places[name] for name in names if name in places)
        for part, names in _COLUMNS.items()
        if places.keys() & {*names}
    }
    joined = (
        place
        for name, place in places.items()
        for image in _COLUMNS["image"]
        if name.startswith(image) and name.removeprefix(image) in _COLUMNS["class"]
    )
    if "image" not in found and (both := next(joined, None)) is not None:
        found |= {"image": both, "class": both}
    for part in ("image", "runs"):
        if part not in found:
            there = listed([preview_value(name) for name in header], 5, ", …") or "none"
            expected = ", ".join(_COLUMNS[part])
            raise UserError(
                f"--run_lengths {path}: no column of the {part}: it has {there}; expected one of {expected}"
            )
    return found
