"""Recognise annotations and masks that lie among images and that no flag reads."""

import csv
import json
import posixpath
import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from shardmill.addons import registry
from shardmill.text import plural
from shardmill.transforms.formats.conventions import describe_foreign_format
from shardmill.transforms.inputs import folders as folder_roles
from shardmill.transforms.inputs.found_files import STEM, MaskPattern, remove_suffix
from shardmill.transforms.inputs.listing import find_names, list_input
from shardmill.transforms.inputs.manifest_table import FILE_COLUMNS
from shardmill.transforms.stores import storage

ANNOTATIONS = folder_roles.FileKind("annotation files", "json|jsonl|xml|txt|csv|tsv|yaml|yml|parquet")
HEAD_BYTES = 1 << 16  # of a file whose contents are recognised
PROBED = 20  # files of one suffix whose contents are looked at


def describe_unused_files(
    root: str, kind: folder_roles.FileKind, unused: Mapping[str, tuple[int, str]], sample: Iterable[str]
) -> str:
    """Return the problem with files in a folder that are no examples, and the flags that read them or leave them out.

    `unused` has the number of files and a name for each suffix, and `sample` has names of examples. What tools export
    is recognised by the first 64 KiB of a file.
    """
    shown = [f"{plural(number, what)}, such as {name!r}" for what, (number, name) in sorted(unused.items())]
    hints = "".join(dict.fromkeys(describe_foreign_format(name) for _, name in unused.values()))
    problem = f"it holds {'; '.join(shown)}, which are no {kind.plural}{hints}"
    finders = registry.modules("formats") if kind == folder_roles.IMAGES else []
    advice = next(filter(None, (finder.find_annotations(root, kind.exclude) for finder in finders)), None)
    if advice is None:
        given = [*(_tables_flags(root, kind, sample) if kind.is_listable else ()), *_suffix_flags(root, kind, unused)]
        advice = f"give {'; or '.join(dict.fromkeys(given))}" if given else ""
        if kind == folder_roles.IMAGES and not given and not hints:
            advice = "; ".join(f"if they annotate the images, {finder.WRITE}" for finder in finders)
    patterns = {_pattern_of(what, name, sample) for what, (_, name) in unused.items()}
    flags = " ".join(f"--exclude {shlex.quote(pattern)}" for pattern in sorted(patterns))
    return f"{problem}; {advice}{'; or, ' if advice else ''}to leave such files out, {'' if advice else 'give '}{flags}"


def _pattern_of(what: str, name: str, sample: Iterable[str]) -> str:
    """Return the suffix that leaves out such files, or else the outermost folder without an example, or the file."""
    folders = ("/".join(name.split("/")[:depth]) for depth in range(1, name.count("/") + 1))
    beside = (path for path in folders if not any(each.startswith(f"{path}/") for each in sample))
    return f"*{posixpath.splitext(name)[1]}" if "." in what else next(beside, name)


def _suffix_flags(root: str, kind: folder_roles.FileKind, unused: Mapping[str, tuple[int, str]]) -> Iterator[str]:
    for _, name in unused.values():
        suffix = name.rpartition(".")[2].lower()
        if suffix == "zip":
            yield f"--input {shlex.quote(storage.join(root, name))}"
        elif kind.plural == folder_roles.AUDIO.plural and re.fullmatch(folder_roles.DECODED_AUDIO, suffix):
            yield "--decode_audio"


def _tables_flags(root: str, kind: folder_roles.FileKind, sample: Iterable[str]) -> list[str]:
    tables = list_input(root, replace(TABLES, exclude=kind.exclude))
    named = {posixpath.basename(each) for name in sample for each in (name, remove_suffix(name))}
    # A file that is named after one image says something of that alone
    names = [name for name in find_names(tables) if remove_suffix(posixpath.basename(name)) not in named][:PROBED]
    flags = list(filter(None, (_describe_table(root, name, kind, sample) for name in names)))
    manifests = " or ".join(each for each in flags if each.startswith("--manifest"))
    lists = " ".join(each for each in flags if each.startswith("--split_lists"))
    labels = [each for each in flags if not each.startswith(("--manifest", "--split_lists"))]
    return [*filter(None, (f"{manifests} in place of --input" * bool(manifests), lists)), *labels]


TABLES = folder_roles.FileKind("tables", "csv|tsv|txt|parquet|jsonl|ndjson")
_ROWS = 1000  # of a table that are compared with the names of files
_DELIMITERS = ",;\t|"


def _read_rows(path: str) -> tuple[list[list[str]], str]:
    """Return the names of a table's columns with its first rows, and the delimiter of CSV; no rows if it is none."""
    suffix = path.rpartition(".")[2].lower()
    with storage.open_read(path) as file:
        if suffix == "parquet":
            import pyarrow.parquet as pq

            batch = next(pq.ParquetFile(file).iter_batches(batch_size=_ROWS))
            return [batch.schema.names, *(list(map(str, row.values())) for row in batch.to_pylist())], ""
        lines = bytes(file.read(HEAD_BYTES)).decode("utf-8-sig", "replace").splitlines()[:_ROWS]
    if suffix in ("jsonl", "ndjson"):
        rows = [json.loads(line) for line in lines[: max(len(lines) - 1, 1)]]
        return [list(rows[0]), *(list(map(str, row.values())) for row in rows)], ""
    known = "\t" if suffix == "tsv" else f"{_DELIMITERS}{' ' * (suffix == 'txt')}"
    delimiter = max(known, key=lambda mark: min((line.count(mark) for line in lines[:PROBED]), default=0))
    return list(csv.reader(lines, delimiter=delimiter)), delimiter


def _describe_table(root: str, name: str, kind: folder_roles.FileKind, sample: Iterable[str]) -> str | None:
    path = storage.join(root, name)
    try:
        rows, delimiter = _read_rows(path)
    except (OSError, ValueError, AttributeError, StopIteration, csv.Error):
        return None
    if registry.has_flag("run_lengths") and any(map(_are_run_lengths, chain.from_iterable(rows[1:]))):
        return f"--run_lengths {shlex.quote(path)}"
    if registry.has_flag("mask_colors") and {"r", "g", "b"} <= {cell.strip().lower() for cell in rows[0]}:
        return f"--masks the folder of the masks --mask_colors {shlex.quote(path)}"
    files = defaultdict[str, list[str]](list)
    for file in sample:
        files[remove_suffix(posixpath.basename(file))].append(file)

    def find_file(cell: str) -> str | None:
        full = posixpath.normpath(cell.strip().replace("\\", "/"))
        stem = remove_suffix(full) if kind.accepts(f"/{full}") else full
        alike = files.get(posixpath.basename(stem), [])
        inside = (file for file in alike if f"/{remove_suffix(storage.join(root, file))}".endswith(f"/{stem}"))
        return next(inside, alike[0] if alike else None)

    def name_in_full(cell: str, file: str) -> str:
        full = posixpath.normpath(cell.replace("\\", "/"))
        return full if kind.accepts(f"/{full}") else f"{full}{posixpath.splitext(file)[1]}"

    counts = Counter(column for row in rows for column, cell in enumerate(row) if find_file(cell) is not None)
    if not counts:
        classes = {row[0].strip() for row in rows if len(row) == 1}
        parts = {part for names in files.values() for name in names for part in name.split("/")}
        return f"--labels_file {shlex.quote(path)}" if classes and classes <= parts else None
    if len(rows[0]) < 2 and find_file(rows[0][0]) is not None and folder_roles.has_split_word(name):
        return f"--split_lists {shlex.quote(path)}"
    column = max(counts, key=lambda each: (counts[each], -each))
    pairs = [(row[column].strip(), found) for row in rows if len(row) > column and (found := find_file(row[column]))]
    paths = [(f"/{storage.join(root, file)}", f"/{name_in_full(cell, file)}") for cell, file in pairs]
    parents = {path.removesuffix(name) if path.endswith(name) else None for path, name in paths}
    (cell, file), full = pairs[0], name_in_full(*pairs[0])
    if len(parents) > 1 or None in parents:
        return f"--manifest a table with names relative to its folder ({path} calls {file} {cell!r})"
    names = list(map(str.strip, rows[0]))
    flags = [f"--manifest {shlex.quote(path)}"]
    if find_file(names[column]) is not None:
        names = [f"column_{number}" for number in range(1, len(names) + 1)]
        names[column] = FILE_COLUMNS[0]
        if len(names) == 2:
            names[1 - column] = "label"
        flags.append(f"--columns {','.join(names)}")
    if delimiter not in ("", ",", "\t" if path.endswith("tsv") else ","):
        flags.append(f"--delimiter {'tab' if delimiter == chr(9) else shlex.quote(delimiter)}")
    if names[column] not in FILE_COLUMNS:
        flags.append(f"--file_column {shlex.quote(names[column])}")
    if full != posixpath.normpath(cell.replace("\\", "/")):
        flags.append(f"--file_suffix {posixpath.splitext(file)[1]}")
    folder = posixpath.relpath(storage.join(root, file).removesuffix(full) or ".", posixpath.dirname(path) or ".")
    if folder != ".":
        flags.append(f"--file_root {shlex.quote(f'{folder}/')}{' --allow_outside' * folder.startswith('..')}")
    others = [row[1 - column] for row in rows[1:] if len(row) == len(names) == 2]
    if "label" not in names and len(set(others)) < len(others):
        flags.append(f"--label_column {shlex.quote(names[1 - column])}")
    return " ".join(flags)


def _are_run_lengths(cell: str) -> bool:
    """Return True if a cell has pairs of ascending starts and lengths, as EncodedPixels on Kaggle."""
    starts = cell.split()[::2] if re.fullmatch(r"\d+ \d+(?: \d+ \d+)+", cell.strip()) else []
    return len(starts) > 1 and starts == sorted(starts, key=int)


# Words by which a folder or a file says that it holds masks, labels or annotations of the images next to it
_MASK_WORDS = {
    *("mask", "masks", "matte", "mattes", "trimap", "trimaps", "gt", "truth", "groundtruth", "anno", "annos"),
    *("seg", "segs", "segm", "segmentation", "segmentations", "semantic", "instance", "instances"),
    *("label", "labels", "labelid", "labelids", "labeltrainids", "annotation", "annotations"),
}
_MANY = 20  # files of a folder: more than the parts of one example
_SHARE = 0.9  # of a folder's files that must be named after those of another
_CUT = re.compile(r"[-_. (]|(?<=\d)(?=[A-Za-z])|(?<=[A-Za-z])(?=\d)")  # between the words of a name
_LABEL_IDS = "labelids"  # the masks of Cityscapes that networks are trained with


def names_masks(name: str) -> bool:
    """Return True if a word in a name says that its files are masks, labels or annotations of other images."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()
    return not _MASK_WORDS.isdisjoint(re.split(r"[^a-z]+", words))


def describe_companions(
    root: str, sample: Sequence[str], roles: folder_roles.FolderRoles | None, kind: folder_roles.FileKind
) -> str | None:
    """Return the problem with files below `root` that belong to others, and the flags that read them; None without.

    By names alone: `sample` has the first names in each folder, and `roles` are those of --folders.
    """
    folders, problem = Counter(map(posixpath.dirname, sample)), None
    near, is_image = _find_mask_folders(folders, roles), kind == folder_roles.IMAGES
    if is_image and near is not None:
        problem = _describe_folders(root, folders, sample, *near)
    elif is_image:
        problem = _describe_named_after(root, sample)
    given = folder_roles.find_roles(folders) if roles is None else None
    if problem is None and given is not None and given.label is not None and (near or max(folders.values()) < _MANY):
        marked = "" if near is None else f"{near[2]!r} next to {near[1]!r} holds masks or labels by its name"
        return _describe_parts(marked, sample, given, is_image)
    otherwise = f"or, if all are examples, --input a glob, such as {shlex.quote(storage.join(root, '**/*.*'))}"
    return problem and f"{problem}; {otherwise}"


def _find_mask_folders(folders: Iterable[str], roles: folder_roles.FolderRoles | None) -> tuple[int, str, str] | None:
    """Return the level and names of a folder of images and of one of their masks next to it, the outermost."""
    beside: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for folder in filter(None, folders):
        parts = tuple(folder.split("/"))
        for level, part in enumerate(parts):
            beside[parts[:level]].add(part)
    for parent in sorted(beside, key=lambda parts: (len(parts), parts)):
        masks = sorted(filter(names_masks, beside[parent]))
        images = sorted(beside[parent] - set(masks))
        if masks and images and (roles is None or len(parent) not in (roles.split, roles.label, roles.group)):
            return len(parent), images[0], masks[0]
    return None


def _describe_folders(
    root: str, folders: Mapping[str, int], sample: Sequence[str], level: int, image: str, mask: str
) -> str:
    names: dict[str, dict[str, str]] = {image: {}, mask: {}}  # by folder, files by their place in it
    parents = set()
    for name in sample:
        parts = remove_suffix(name).split("/")
        if len(parts) > level + 1 and parts[level] in names:
            parents.add("/".join(parts[:level]))
            names[parts[level]]["/".join((*parts[:level], *parts[level + 1 :]))] = name
    has_masks = registry.has_flag("mask_pattern")
    pairs = _match_names(names[image], names[mask]) if has_masks else {}
    usual = [each for each, found in pairs.items() if len(found) >= _SHARE * min(map(len, names.values()))]
    usual.sort(key=lambda each: (_LABEL_IDS not in each.mask.lower(), each != MaskPattern(), str(each)))
    pattern = usual[0] if usual else None
    example = repr(min(names[mask].values(), default=mask))
    problem = f"{mask!r} holds files that are named after those of {image!r}, such as {example}"
    if pattern is None:
        problem = f"{mask!r} next to {image!r} holds masks or annotations by its name, such as {example}"
    inside = {name: number for name, number in folders.items() if name.split("/")[level : level + 1] == [image]}
    if len(parents) == 1:
        (parent,) = parents
        flags = {"input": posixpath.join(root, parent, image), "masks": posixpath.join(root, parent, mask)}
        naming = "" if pattern in (None, MaskPattern()) else str(pattern)
        inside = {"/".join(name.split("/")[level + 1 :]): number for name, number in inside.items()}
    else:
        flags = {"input": root}
        pattern = pattern or MaskPattern()
        naming = str(MaskPattern(f"{image}/{pattern.image}", f"{mask}/{pattern.mask}"))
    given = [f"--{flag} {shlex.quote(value)}" for flag, value in flags.items()]
    given += [f"--mask_pattern {shlex.quote(naming)}"] if naming else []
    found = folder_roles.find_roles(inside)
    no_classes = folder_roles.SPLITS if folder_roles.are_all_splits(inside) else folder_roles.NO_ROLES
    given += [] if found == no_classes else [f"--folders {no_classes}"]
    rest = {name: number for name, number in folders.items() if mask not in name.split("/")}
    exclude = f"--exclude {shlex.quote(mask)}"
    exclude += "" if folder_roles.find_roles(rest) else f" --folders {folder_roles.NO_ROLES}"
    table = _name_table("of both", (image, mask))
    if usual:
        return f"{problem}; give {' '.join(given)}; or, if they are no masks, {table}; or, to leave them out, {exclude}"
    why = "; no --mask_pattern fits their names, and an image has one mask" if has_masks else ""
    return f"{problem}{why}; to leave them out, give {exclude}; or, if each image has one file there, {table}"


def _describe_named_after(root: str, sample: Sequence[str]) -> str | None:
    """Return the problem with a folder in which most names are those of others with one addition, such as `1_mask`."""
    by_folder: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name in sorted(sample):
        folder, _, base = name.rpartition("/")
        by_folder[folder][remove_suffix(base)].append(name)
    for stems in by_folder.values():
        is_numbered = len({re.sub(r"\d+", "0", stem) for stem in stems}) == 1  # and no file is named after another
        matches = {} if is_numbered else _match_names((stem for stem in stems if not names_masks(stem)), stems)
        pairs = {
            pattern: [(stems[image][0], stems[mask][0]) for image, mask in found]
            for pattern, found in matches.items()
            if names_masks(pattern.mask) or (pattern.image == STEM and re.sub(r"[\W\d_]|stem", "", pattern.mask))
        }
        pattern = max(pairs, key=lambda one: (names_masks(one.mask), len(pairs[one]), str(one)), default=MaskPattern())
        named = {mask for of_pattern in pairs.values() for _, mask in of_pattern}
        if pairs and 2 * len(pairs[pattern]) > len(stems) - len(named):
            number, (image, mask) = plural(len(pairs[pattern]), "file is", "files are"), pairs[pattern][0]
            flags = f"--input {shlex.quote(root)} --mask_pattern {shlex.quote(str(pattern))}"
            exclude = f"--exclude {shlex.quote(pattern.mask.replace(STEM, '*') + '.*')}"
            advice = f"to leave them out, give {exclude}"
            if registry.has_flag("mask_pattern") and names_masks(pattern.mask):
                advice = f"give {flags}; or, to leave them out, {exclude}"
            elif registry.has_flag("mask_pattern"):  # pixels may be no classes, as in pictures of superpixels
                advice += f"; or, if they are masks, {flags}"
            problem = f"{number} named after other images, such as {mask!r} after {image!r}"
            table = _name_table("of both", (FILE_COLUMNS[0], pattern.mask.replace(STEM, "").strip("-_. ()")))
            return f"{problem}; {advice}; or, if both are inputs, {table}"
        doubled = [names for names in stems.values() if len(names) > 1]
        if 2 * len(doubled) > len(stems):
            suffixes = sorted({posixpath.splitext(name)[1] for name in doubled[0]})
            flags = " or ".join(f"--exclude {shlex.quote(f'*{suffix}')}" for suffix in suffixes[::-1])
            masks = "; masks are read from a folder of their own, by --masks" if registry.has_flag("masks") else ""
            have, (one, other) = plural(len(doubled), "name has", "names have"), doubled[0][:2]
            return f"{have} two suffixes, such as {one!r} and {other!r}; give {flags}{masks}"
    return None


def _describe_parts(problem: str, sample: Iterable[str], roles: folder_roles.FolderRoles, is_image: bool) -> str | None:
    """Return the problem with folders that have few files of the same names, which are words: `1/left`, `2/left`."""
    words: dict[str, list[str]] = defaultdict(list)
    for name in sample:
        folder, base = posixpath.split(name)
        words[folder].append(remove_suffix(base).replace(posixpath.basename(folder), ""))
    first, *others = (sorted(re.sub(r"\d+", "", word) for word in each) for each in words.values())
    if 1 < others.count(first) == len(others) and first[0] and len({*first}) > 1:
        problem = problem or f"{len(words):,} folders, such as {min(words)!r}, have files of the same names"
    columns = sorted(word.strip("-_. ") for word in next(iter(words.values())))
    table = f"give {_name_table('with a row for each folder', columns)}"
    advice = table if is_image else "join them in one file, because each example has one"
    ways = f"if these are parts of one example, {advice}; if the folders are classes, give --folders {roles}"
    return f"{problem}: {ways}; if each file is an example without a class, --folders any" if problem else None


def _name_table(rows: str, columns: Iterable[str]) -> str:
    """Return the flags for a table of images that belong together, whose rows and columns are given."""
    return f"--manifest a table {rows} and --file_column {shlex.quote(','.join(columns))} in place of --input"


def _match_names(images: Iterable[str], masks: Iterable[str]) -> dict[MaskPattern, list[tuple[str, str]]]:
    """Return pairs of an image and another name, both without suffix, by the pattern that makes one of the other.

    Both begin or end with the same text, which is not that of a second image, as do `a/1_left` and `a/1_mask`.
    """
    parts: dict[str, tuple[str, str] | None] = {}  # templates and images by common text; None for several images
    whole = {image: (STEM, image) for image in images}
    for image in whole:
        for kept, template in _cut_words(image):
            parts[kept] = None if kept in parts else (template, image)
    pairs: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)  # by templates
    for mask in masks:
        for kept, template in ((mask, STEM), *_cut_words(mask)):
            if (found := whole.get(kept) or parts.get(kept)) is not None:
                pairs[found[0], template].append((found[1], mask))
    return {MaskPattern(*templates): found for templates, found in pairs.items()}


def _cut_words(name: str) -> list[tuple[str, str]]:
    """Return the rests of a name without its first or last words, and their templates: `a/1` and `{stem}_mask`."""
    start = name.rfind("/") + 1
    folder, base = name[:start], name[start:]
    rests = (rest for cut in _CUT.finditer(base) for rest in (base[: cut.start()], base[cut.end() :]) if rest)
    return [(f"{folder}{rest}", base.replace(rest, STEM, 1)) for rest in rests]
