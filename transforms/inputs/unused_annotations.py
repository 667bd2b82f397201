"""Recognise annotations and masks that lie among images and that no flag reads."""

import csv
import io
import itertools
import json
import os
import posixpath
import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from shardmill.text import listed, plural
from shardmill.transforms.inputs.folders import IMAGES, SPLIT_FOLDERS, FileKind
from shardmill.transforms.inputs.found_files import STEM, MaskPattern, remove_suffix
from shardmill.transforms.inputs.listing import METADATA_NAMES, FoundFile, find_exclusion, list_input
from shardmill.transforms.inputs.manifest_table import FILE_COLUMNS
from shardmill.transforms.inputs.summary import MASK_WORDS
from shardmill.transforms.options.image_options import BOXES_CSV
from shardmill.transforms.stores import storage

ANNOTATIONS = FileKind("annotation files", "json|jsonl|xml|txt|csv|tsv|yaml|yml|parquet")
_NO_ANNOTATION = re.compile(r"readme|licen[cs]e|changelog|requirements", re.IGNORECASE)
_HEAD_BYTES = 1 << 16  # of a file whose contents are recognised
_PROBED = 20  # files of one suffix whose contents are looked at
_SHOWN = 3  # names in a message

_COCO = re.compile(r'"images"\s*:\s*\[')
_COCO_OTHERS = re.compile(r'"(?:annotations|categories|licenses|info)"\s*:')
_NO_OBJECTS = ("captions_", "image_info_", "panoptic_", "stuff_")  # files of MS COCO that have no boxes
_YOLO_LINE = re.compile(r"\d+(?:\s+-?\d*\.?\d+(?:e-?\d+)?){4,}\s*")
# What labelling tools write: the suffix of a file, a pattern in its head, the tool, and its name for --annotations
_TOOLS = (
    ("json", re.compile(r'"imagePath"\s*:|"shapes"\s*:\s*\[\s*\{[^{}]*"(?:label|points)"'), "LabelMe", "labelme"),
    (
        "json",
        re.compile(r'"_via_|"regions"\s*:\s*[\[{]|"shape_attributes"\s*:|"metadata"\s*:\s*\{.*"xy"\s*:', re.DOTALL),
        "the VGG Image Annotator",
        "via",
    ),
    ("csv", re.compile(r"\A[^\n]*\bregion_shape_attributes\b"), "the VGG Image Annotator", "via"),
    (
        "json",
        re.compile(
            r'"coordinates"\s*:\s*\{\s*"|\A\s*\[\s*\{\s*"image(?:filename)?"\s*:\s*"[^"]*"\s*,\s*"annotations?"\s*:'
        ),
        "CreateML",
        "createml",
    ),
    (
        "json",
        re.compile(
            r'"(?:annotations|completions)"\s*:.*"data"\s*:|"data"\s*:.*"annotations"'
            r'|"(?:brush|ellipse|keypoint|polygon|rectangle)labels"',
            re.DOTALL,
        ),
        "Label Studio",
        "label_studio",
    ),
    ("xml", re.compile(r"<annotations>\s*<version>1\.1|<annotations>.*<(?:image|track) ", re.DOTALL), "CVAT", "cvat"),
    ("xml", re.compile(r"<annotation>.*<object>.*<(?:polygon|segm)>.*<username>", re.DOTALL), "LabelMe", "label_me"),
    (
        "txt",
        re.compile(r"\A[A-Za-z_]+ -?\d(?:\.\d+)? -?\d(?: -?\d+(?:\.\d+)?){12,13}\s*(?:\n|\Z)"),
        "KITTI",
        "kitti_detection",
    ),
    (
        "csv",
        re.compile(r"\A[^\n]*\b(?:xmin|x_min|x1|bbox_x|bbox|left\W+top|x\W+y\W+w(?:idth)?)\b", re.IGNORECASE),
        "boxes in CSV",
        "boxes_csv",
    ),
)
# What tools name their files: a pattern, whose group is the folder to give, the tool, and its name for --annotations
_NAMED = (
    (re.compile(r"((?:.*/)?)obj_\w+_data/[^/]+\.txt"), "YOLO as Darknet writes it", "yolo"),
    (re.compile(r"()(?:.*/)?_classes\.csv"), "classes as Roboflow writes them", "roboflow_multiclass"),
    (re.compile(r"((?:.*/)?)annotations/[^/]*class-descriptions[^/]*\.csv"), "Open Images", "open_images"),
)
_SPLIT_WORD = re.compile(r"(?<![a-z])(" + "|".join(SPLIT_FOLDERS) + r")(?![a-z])", re.IGNORECASE)


def find_unused_annotations(root: str, exclude: tuple[str, ...] = ()) -> str | None:
    """Return the problem with the annotations below `root`, a folder of images, and the flags that read them.

    None if no file there looks like annotations: each file is recognised by the first 64 KiB of its contents, or
    because it is named after an image. Files that match the patterns `exclude` are left out.
    """
    images = replace(IMAGES, exclude=exclude)
    listing = list_input(root, replace(ANNOTATIONS, exclude=exclude))
    found = (item.name for item in listing if isinstance(item, FoundFile))
    names = [name for name in found if not _is_other(posixpath.basename(name))]
    problem = _find_problem(root, names, images)
    if problem is None:
        return None
    suffixes = sorted({posixpath.splitext(name)[1] for name in names})
    flags = " ".join(f"--ignore '*{suffix}'" for suffix in suffixes)
    return f"{problem}; or, to leave such files out, {flags}"


def _is_other(name: str) -> bool:
    return name in METADATA_NAMES or _NO_ANNOTATION.match(name) is not None


def _find_problem(root: str, names: Sequence[str], images: FileKind) -> str | None:
    by_suffix: dict[str, list[str]] = {}
    for name in sorted(names):
        by_suffix.setdefault(name.rpartition(".")[2].lower().replace("yml", "yaml"), []).append(name)

    def matching(suffix: str, matches: Callable[[str], object]) -> list[str]:
        return [name for name in by_suffix.get(suffix, ())[:_PROBED] if matches(_head(storage.join(root, name)))]

    if yaml := matching(
        "yaml", lambda head: re.search(r"^names\s*:", head, re.M) and re.search(r"^train\s*:", head, re.M)
    ):
        return _describe(yaml, "the data.yaml of YOLO", [f"--yolo {storage.join(root, name)}" for name in yaml])
    if coco := matching(
        "json", lambda head: head.lstrip().startswith("{") and _COCO.search(head) and _COCO_OTHERS.search(head)
    ):
        return _describe_coco(root, coco)
    for pattern, tool, export in _NAMED:
        matches = [match for name in names if (match := pattern.fullmatch(name))]
        if matches:
            folder = storage.join(root, matches[0][1].rstrip("/")) if matches[0][1] else root
            what = f"annotations of {tool}" if export == "open_images" else tool
            return _describe([match[0] for match in matches], what, [f"--annotations {export}={folder}"])
    for suffix, pattern, tool, export in _TOOLS:
        if not (found := matching(suffix, pattern.search)):
            continue
        if export:
            flag = f"--{export} {root}" if export == BOXES_CSV else f"--annotations {export}={root}"
            return _describe(found, f"annotations of {tool}", [flag])
        return (
            f"{_subject(found)}: annotations of {tool}, which shardmill does not read; export them as COCO, Pascal"
            f" VOC or YOLO for --coco, --voc or --yolo"
        )
    if voc := matching("xml", lambda head: re.search(r"<annotation\b", head)):
        return _describe(voc, "annotations of Pascal VOC", [f"--voc {root}"])
    if yolo := [name for name in matching("txt", _is_yolo) if posixpath.basename(name) != "classes.txt"]:
        return (
            f"{_subject(yolo)}: boxes as YOLO writes them; give --yolo a data.yaml with names: (the classes, from id 0)"
            f" and train: (the folder of the images)"
        )
    tables = [storage.join(root, name) for suffix in TABLE_SUFFIXES for name in by_suffix.get(suffix, ())[:_PROBED]]
    if (table := find_image_table(root, tables, images)) is not None:
        name = table.path.removeprefix(storage.join(root, ""))
        return f"{_subject([name])}, a table of images{_describe_table(table)}"
    if same := _find_named_alike(root, names, images):
        return (
            f"{_subject(same)}: named after images, and not read; give --manifest a table of the images and of what"
            f" these files say, or make a tar file of them for shardmill webdataset: tar --sort=name -cf images.tar -C"
            f" {shlex.quote(root)} ."
        )
    return None


def find_tool_files(folder: str, names: Iterable[str], export: str, most: int | None = None) -> list[str]:
    """Return the files of a folder that hold what a tool exports, by the first 64 KiB of their contents.

    `export` is the tool's name for --annotations; `most` the number of files with its suffix to look at, None for all.
    """
    found = []
    for suffix, pattern, _, name in _TOOLS:
        if name == export:
            alike = [each for each in sorted(names) if each.lower().endswith(f".{suffix}")][:most]
            found += [each for each in alike if pattern.search(_head(storage.join(folder, each)))]
    return found


def find_exports(folder: str, names: Sequence[str]) -> set[str]:
    """Return the names, for --annotations, of the tools whose exports are among the first files of each suffix."""
    exports = {export for *_, export in _TOOLS if export}
    return {export for export in exports if find_tool_files(folder, names, export, _PROBED)}


def _head(path: str) -> str:
    with storage.open_read(path) as file:
        return bytes(file.read(_HEAD_BYTES)).decode("utf-8-sig", "replace")


def _subject(names: Sequence[str]) -> str:
    return f"it holds {listed([repr(name) for name in names], _SHOWN)}"


def _describe(names: Sequence[str], what: str, flags: Iterable[str]) -> str:
    return f"{_subject(names)}, {what}; give {' or '.join(flags)} in place of --input"


def _describe_coco(root: str, names: Sequence[str]) -> str:
    usable = [name for name in names if not posixpath.basename(name).startswith(_NO_OBJECTS)]
    instances = [name for name in usable if posixpath.basename(name).startswith("instances")]
    chosen = instances or usable
    if not chosen:
        return f"{_subject(names)}, files of COCO without boxes, which shardmill does not read"
    splits = [_split_of(name) for name in chosen]
    if None in splits or len(set(splits)) < len(splits):
        flags = [f"--coco {storage.join(root, name)}" for name in chosen]
        return _describe(chosen, "COCO annotations", flags)
    given = (f"--coco {split}={storage.join(root, name)}" for split, name in zip(splits, chosen, strict=True))
    return _describe(chosen, "COCO annotations", [" ".join(given)])


def _split_of(name: str) -> str | None:
    for part in reversed(name.split("/")):
        if found := _SPLIT_WORD.search(part):
            return SPLIT_FOLDERS[found[1].lower()]
    return None


def _is_yolo(head: str) -> bool:
    lines = [line for line in head.splitlines()[:_PROBED] if line.strip()]
    return bool(lines) and all(_YOLO_LINE.fullmatch(line) for line in lines)


def _find_named_alike(root: str, names: Iterable[str], images: FileKind) -> list[str]:
    """Return the files that have the name of an image in the same folder, but for the suffix."""
    by_stem = {posixpath.splitext(name)[0]: name for name in names}
    found = (item.name for item in list_input(root, images) if isinstance(item, FoundFile)) if by_stem else ()
    return sorted(by_stem[stem] for name in found if (stem := posixpath.splitext(name)[0]) in by_stem)


TABLE_SUFFIXES = ("csv", "tsv", "txt", "parquet", "jsonl", "ndjson", "json")
_ROWS = 1000  # of a table that are compared with the names of images
_DELIMITERS = ",;\t|"
_GUESSED = re.compile(r"submission", re.IGNORECASE)  # tables of Kaggle that hold no labels
_LABELS = re.compile(r"label|class|target|category|train", re.IGNORECASE)  # in names of columns, and of tables
_OBJECT = re.compile(r"\{[^{}]*\}")
_MEMBER = re.compile(r'"((?:[^"\\]|\\.)+)"\s*:\s*("(?:[^"\\]|\\.)*"|-?[0-9.]+)')


@dataclass(frozen=True, slots=True)
class _Table:
    path: str
    names: tuple[str, ...]  # of the columns; the first row of a table without a header
    rows: list[list[str]]
    delimiter: str = ""  # of CSV

    @property
    def suffix(self) -> str:
        return self.path.rpartition(".")[2].lower()


@dataclass(frozen=True, slots=True)
class ImageTable:
    """A table that names images."""

    path: str
    flags: str  # of --manifest that read it; "" if no flags do
    example: str  # a sentence about one of its names, if no flags read it


def find_image_table(root: str, paths: Iterable[str], images: FileKind) -> ImageTable | None:
    """Return the table among `paths` that names most of the images below `root`; None if none names any."""
    tables = [table for path in paths if (table := _read_table(path)) is not None]
    if others := [table for table in tables if not _GUESSED.search(posixpath.basename(table.path))]:
        tables = others
    places: dict[str, set[tuple[int, int]]] = defaultdict(set)  # of stems: (table, column)
    cells: dict[tuple[int, int], dict[str, str]] = defaultdict(dict)
    for number, table in enumerate(tables):
        for row in (list(table.names), *table.rows):
            for column, cell in enumerate(row):
                if stem := _stem(cell):
                    places[stem].add((number, column))
                    cells[number, column].setdefault(stem, cell.strip())
    found: dict[tuple[int, int], dict[str, str]] = defaultdict(dict)  # images by stem
    total = 0
    for item in list_input(root, images) if places else ():
        if isinstance(item, FoundFile):
            total += 1
            stem = _stem(item.name)
            for place in places.get(stem, ()):
                found[place].setdefault(stem, item.name)
    named = [
        place
        for place, stems in found.items()
        if _are_names(stems, len(cells[place]), min(total, len(tables[place[0]].rows)))
    ]
    if not named:
        return None
    number, column = max(named, key=lambda place: _rank(tables[place[0]], len(found[place]), place))
    stem, image = next(iter(found[number, column].items()))
    return _describe_image_table(root, tables[number], column, cells[number, column][stem], image)


def _are_names(stems: Collection[str], different: int, possible: int) -> bool:
    """Return True if a column of `different` texts, of which `stems` are those of images, is one of their names.

    At most `possible` of the texts can be. Numbers may be those of anything, so half of them must be names.
    """
    if all(map(str.isdecimal, stems)):
        return len(stems) >= max(2, different / 2)
    return len(stems) >= min(2, possible)


def _rank(table: _Table, matches: int, place: tuple[int, int]) -> tuple[int, ...]:
    """Return the rank of a table: first those with labels, by a column's name or their own."""
    has_labels = any(map(_LABELS.search, table.names))
    is_called_so = _LABELS.search(posixpath.basename(table.path)) is not None
    return len(table.names) > 1, has_labels, is_called_so, matches, -place[0], -place[1]


def _stem(name: str) -> str:
    base = posixpath.basename(name.strip().replace("\\", "/"))
    return posixpath.splitext(base)[0] if IMAGES.accepts(f"/{base}") else base


def _read_table(path: str) -> _Table | None:
    suffix = path.rpartition(".")[2].lower()
    try:
        if suffix == "parquet":
            return _read_parquet(path)
        with storage.open_read(path) as file:
            head = bytes(file.read(_HEAD_BYTES + 1)).decode("utf-8-sig", "replace")
    except (OSError, ValueError):
        return None
    if suffix in ("json", "jsonl", "ndjson"):
        return _read_json(path, head)
    lines = head[:_HEAD_BYTES].splitlines()[: _ROWS + 1]
    if len(head) > _HEAD_BYTES:
        lines = lines[:-1]
    if len(lines) < 2:
        return None
    known = "\t" if suffix == "tsv" else "".join((_DELIMITERS, " " * (suffix == "txt")))
    delimiter = max(known, key=lambda mark: min(line.count(mark) for line in lines[:2]))
    rows = list(islice(csv.reader(io.StringIO("\n".join(lines)), delimiter=delimiter), _ROWS + 1))
    if suffix == "txt" and len(rows[0]) < 2:  # a list of files, not a table
        return None
    return _Table(path, tuple(map(str.strip, rows[0])), rows[1:], delimiter)


def _read_parquet(path: str) -> _Table | None:
    import pyarrow.parquet as pq

    with storage.open_read(path) as file:
        for batch in pq.ParquetFile(file).iter_batches(batch_size=_ROWS):
            columns = [list(map(str, column.to_pylist())) for column in batch.columns]
            return _Table(path, tuple(batch.schema.names), [list(row) for row in zip(*columns, strict=True)])
    return None


def _read_json(path: str, head: str) -> _Table | None:
    rows = []
    for match in islice(_OBJECT.finditer(head), _ROWS):
        try:
            rows.append({str(name): str(value) for name, value in json.loads(match[0]).items()})
        except ValueError:
            continue
    if len(rows) < 2:  # an object with a member for each image
        pairs = [list(match.groups()) for match in islice(_MEMBER.finditer(head), _ROWS)]
        return _Table(path, ("", ""), pairs) if pairs else None
    names = tuple(dict.fromkeys(name for row in rows for name in row))
    return _Table(path, names, [[row.get(name, "") for name in names] for row in rows])


def _describe_image_table(root: str, table: _Table, column: int, cell: str, image: str) -> ImageTable:
    path = storage.join(root, image)
    if table.suffix == "json":
        name = posixpath.relpath(path, posixpath.dirname(table.path) or ".")
        example = json.dumps({"file_name": name, "label": "…"}, ensure_ascii=False)
        return ImageTable(table.path, "", f"--manifest reads JSON lines, such as {example}")
    called = posixpath.normpath(cell.replace("\\", "/"))
    full = called if IMAGES.accepts(f"/{called}") else f"{called}{posixpath.splitext(image)[1]}"
    if not f"/{path}".endswith(f"/{full}"):
        return ImageTable(table.path, "", f"it calls {path} {cell!r}; --manifest needs names relative to its folder")
    flags = [f"--manifest {shlex.quote(table.path)}"]
    has_header = _stem(table.names[column]) != _stem(cell) and not IMAGES.accepts(f"/{table.names[column]}")
    names = list(table.names)
    if not has_header:
        names = [f"column_{number}" for number in range(1, len(names) + 1)]
        names[column] = FILE_COLUMNS[0]
        if len(names) == 2:
            names[1 - column] = "label"
        flags.append(f"--columns {','.join(names)}")
    if table.delimiter and table.delimiter != ("\t" if table.suffix == "tsv" else ","):
        flags.append(f"--delimiter {'tab' if table.delimiter == chr(9) else shlex.quote(table.delimiter)}")
    if names[column] not in FILE_COLUMNS:
        flags.append(f"--file_column {shlex.quote(names[column])}")
    if full != called:
        flags.append(f"--file_suffix {posixpath.splitext(image)[1]}")
    folder = posixpath.relpath(path.removesuffix(full) or ".", posixpath.dirname(table.path) or ".")
    if folder != ".":
        flags.append(f"--file_root {shlex.quote(f'{folder}/')}")
    others = [row[1 - column] for row in table.rows if len(row) == len(names) == 2]
    if "label" not in names and _are_classes(others):
        flags.append(f"--label_column {shlex.quote(names[1 - column])}")
    return ImageTable(table.path, " ".join(flags), "")


def _are_classes(values: Sequence[str]) -> bool:
    """Return True if texts are repeated, and none is missing or a number with a fraction."""
    is_repeated = len(set(values)) < len(values)
    return is_repeated and not any(re.fullmatch(r"\s*-?\d+\.\d*[1-9]\d*\s*|\s*", value) for value in values)


def find_table_above(root: str, images: FileKind) -> str | None:
    """Return the problem with a table in the folder above `root` that names the images in `root`; None without one."""
    folder = posixpath.normpath(posixpath.join(root, "..")) if storage.is_local(root) else ""
    if not folder or not os.path.isdir(root) or not os.path.isdir(folder):
        return None
    names = [name for name in sorted(os.listdir(folder)) if name.rpartition(".")[2].lower() in TABLE_SUFFIXES]
    names = [name for name in names if not _is_other(name) and find_exclusion(name, images.exclude) is None]
    table = find_image_table(root, [storage.join(folder, name) for name in names[:_PROBED]], images)
    if table is None:
        return None
    return f"{table.path} names its images{_describe_table(table)}"


def _describe_table(table: ImageTable) -> str:
    return f"; give {table.flags} in place of --input" if table.flags else f"; {table.example}"


_MASK_NAME = re.compile(rf"(?:.*[^a-z0-9])?(?:{MASK_WORDS})|(?:{MASK_WORDS})[^a-z0-9].*", re.IGNORECASE)
_MASK_FOLDER = re.compile(
    rf"(?:.*[^a-z])?(?:{MASK_WORDS}|segmentationclass|groundtruth|gtfine|gtcoarse)(?:[^a-z].*)?", re.IGNORECASE
)
MOST_PAIRED_FOLDERS = 8  # among which folders of masks are looked for
_SHARE = 0.9  # of a folder's files that must be named after those of another
_COMPARED = 8  # names from which a pattern is inferred
_FIRST_WORD, _LAST_WORD = re.compile(r"\A[^-_. ]*[-_. ]"), re.compile(r"[-_. ][^-_. ]*\Z")
_LABEL_IDS = "labelids"  # the masks of Cityscapes that networks are trained with
CITYSCAPES = "_leftImg8bit."  # in the names of the pictures of Cityscapes, whose folders are cities


@dataclass(frozen=True, slots=True)
class FoundMasks:
    """Files among images that are named after other images: masks of these, or one more picture of each example."""

    problem: str  # what was found, with an example
    flags: str  # flags that read the files, as masks if their folder is called so
    exclude: str  # pattern of these files, for --exclude


def find_masks_next_to_images(root: str, names: Iterable[str]) -> FoundMasks | None:
    """Return the masks such as `1_mask.png` next to `1.png` among the images `names` below `root`; None without any."""
    by_stem = {remove_suffix(name): name for name in sorted(names)}
    examples: dict[str, list[tuple[str, str]]] = {}
    for stem in by_stem:
        folder, base = posixpath.split(stem)
        if _MASK_NAME.fullmatch(remove_suffix(base)) is None:
            continue
        for cut in (_LAST_WORD.sub("", base), _FIRST_WORD.sub("", base)):
            if cut and cut != base and (image := by_stem.get(posixpath.join(folder, cut))) is not None:
                examples.setdefault(base.replace(cut, STEM, 1), []).append((image, by_stem[stem]))
    if not examples:
        return None
    template, pairs = max(examples.items(), key=lambda item: (len(item[1]), item[0]))
    number = plural(len(pairs), "file is", "files are")
    problem = f"{number} named after other images, as masks are, such as {pairs[0][1]!r} after {pairs[0][0]!r}"
    flags = f"--input {shlex.quote(root)} --mask_pattern {shlex.quote(template)}"
    return FoundMasks(problem, flags, f"{template.replace(STEM, '*')}.*")


def find_paired_folders(root: str, names: Iterable[str], are_classes_plausible: bool) -> FoundMasks | None:
    """Return the masks in a folder whose files are named after those of another folder; None without any.

    Files of classes are often numbered alike. So if the folders may be classes, one of them must have the name of a
    folder of masks, or their files must not be called by running numbers. No picture is opened.
    """
    by_stem = {remove_suffix(name): name for name in sorted(names)}
    tops = {stem.partition("/")[0] for stem in by_stem if "/" in stem}
    in_splits = bool(tops) and all(top.lower() in SPLIT_FOLDERS for top in tops)
    folders: dict[str, dict[str, str]] = {}  # inner names and files, by folder
    for stem, name in by_stem.items():
        split, _, inner = stem.partition("/") if in_splits else ("", "", stem)
        folder, slash, rest = inner.partition("/")
        if slash:
            folders.setdefault(folder, {})[f"{split}/{rest}" if in_splits else rest] = name
    if not 2 <= len(folders) <= MOST_PAIRED_FOLDERS:
        return None
    pair: FoundMasks | None = None  # of pictures that are no masks
    for mask in sorted(folders, key=lambda name: (not _is_mask_folder(name), name)):
        for image in sorted(folders.keys() - {mask}):
            pattern = infer_mask_pattern(folders[image], folders[mask])
            if pattern is None or (pattern != MaskPattern() and not _is_mask_folder(mask)):
                continue
            pairs = [(stem, pattern.name_mask(stem)) for stem in sorted(folders[image])]
            files = [(folders[image][stem], folders[mask][other]) for stem, other in pairs if other in folders[mask]]
            are_masks = _is_mask_folder(mask) and not (are_classes_plausible and _is_mask_folder(image))
            if are_classes_plausible and not (are_masks or _are_numbered_freely(files)):
                continue
            problem = f"{mask!r} holds files that are named after those of {image!r}, such as {files[0][1]!r}"
            if not are_masks:
                pair = pair or FoundMasks(problem, f"--manifest a table of both and --file_column {image},{mask}", mask)
                continue
            if in_splits:
                places = {"input": root}
                pattern = MaskPattern(f"{image}/{pattern.image}", f"{mask}/{pattern.mask}")
            else:
                places = {"input": storage.join(root, image), "masks": storage.join(root, mask)}
            naming = {} if pattern == MaskPattern() else {"mask_pattern": str(pattern)}
            flags = (f"--{flag} {shlex.quote(value)}" for flag, value in {**places, **naming}.items())
            return FoundMasks(problem, " ".join(flags), mask)
    return pair


def infer_mask_pattern(images: Collection[str], masks: Collection[str]) -> MaskPattern | None:
    """Return the pattern by which masks are named after images, both without suffixes; None if no pattern fits."""
    if sum(mask in images for mask in masks) >= _SHARE * len(masks):
        return MaskPattern()
    first = sorted(images)[:_COMPARED]
    word = _LAST_WORD.search(posixpath.basename(first[0])) if len(first) > 1 else None
    ending = word[0] if word is not None and all(stem.endswith(word[0]) for stem in images) else ""
    candidates: Counter[MaskPattern] = Counter()
    for folder, base in map(posixpath.split, first):
        cut = base.removesuffix(ending)
        for mask_folder, mask in map(posixpath.split, masks):
            if cut and mask_folder == folder and cut in mask:
                candidates[MaskPattern(f"{STEM}{ending}", mask.replace(cut, STEM, 1))] += 1
    # What fits nearly all images fits several of the first; thousands of others fit one, if files are numbered
    usual = [pattern for pattern, number in candidates.items() if number >= min(2, len(first))]
    counts = {pattern: sum(pattern.name_mask(stem) in masks for stem in images) for pattern in usual}
    best = max(counts, key=lambda each: (counts[each], _LABEL_IDS in each.mask.lower(), str(each)), default=None)
    return best if best is not None and counts[best] >= _SHARE * len(images) else None


def _is_mask_folder(name: str) -> bool:
    return _MASK_FOLDER.fullmatch(name) is not None


def _are_numbered_freely(files: Sequence[tuple[str, str]]) -> bool:
    """Return True if the files of the first folder are not called by running numbers, as those of any class may be."""
    numbers = [re.fullmatch(r"(.*?)(\d*)", remove_suffix(posixpath.basename(image))) for image, _ in files]
    places = sorted({int(number[2] or 0) for number in numbers if number is not None})
    names = {number[1] for number in numbers if number is not None}
    steps = [after - before for before, after in itertools.pairwise(places)]
    return len(names) > 1 or (bool(steps) and sum(steps) >= min(steps) * len(places) / _SHARE)
