"""What a user is told of the input, whatever is made of it."""

import re
from collections.abc import Mapping, Sequence

from shardmill.transforms.inputs.listing import NO_MATCH
from shardmill.transforms.inputs.summary import InputSummary

_PASSED_OVER = "passed over "


def skipped_notices(summary: InputSummary) -> list[str]:
    """What was passed over, in words, whatever the route."""
    return [
        f"{_PASSED_OVER}{number} {kind if number == 1 else _plural(kind)}, such as {name!r}"
        for kind, (number, name) in sorted(summary.skipped.items())
    ]


def noted_notices(summary: InputSummary) -> list[str]:
    """What there is to say of records that were read, in words."""
    return [
        f"{number:,} record{'' if number == 1 else 's'}, such as {name!r}: {what}"
        for what, (number, name) in sorted(summary.noted.items())
    ]


def is_of_choices(notice: str) -> bool:
    """Whether a notice says of which choices of a glob, such as days of a window, no file is there."""
    kinds = (f" {NO_MATCH}, ", f" {_plural(NO_MATCH)}, ")
    return notice.startswith(_PASSED_OVER) and any(kind in notice for kind in kinds)


def left_out_notices(found: Mapping[str, int]) -> list[str]:
    """What annotations say and no example holds, each of so many objects, in words."""
    if not found:
        return []
    left_out = ", ".join(f"{what} of {number:,}" for what, number in sorted(found.items()))
    return [f"left out of annotations of objects, of which the boxes are kept: {left_out}"]


def numbered_notice(classes: int) -> str:
    """That so many classes of objects have no names but their ids."""
    return f"classes of objects have no names but their ids, 0 to {classes - 1}; --labels_file gives them names"


def list_notices(label: str, names: Sequence[str]) -> list[str]:
    """That names of classes look like lists, as Python and pandas write them into a cell."""
    lists = [name for name in names if re.fullmatch(r"\[.*\]", name)]
    if not lists:
        return []
    number = "1 class" if len(lists) == 1 else f"{len(lists):,} classes"
    return [
        f"{number} of {label!r} {'is' if len(lists) == 1 else 'are'} called as a list is written, such as"
        f" {lists[0]!r}, and each is one class; rows of several classes are lists in JSON lines and Parquet, or"
        " texts that --label_separator splits"
    ]


def folder_remedy(plural: str, manifest: bool = False, masks: str = "") -> str:
    """Which flag says what folders mean; `plural` lie in them, which a `manifest` could list, and in `masks` what may
    well be their masks."""
    by_manifest = ", or --manifest a file that names each with its label" if manifest else ""
    beside = f" and --masks the folder {masks!r}" if masks else ""
    return (
        "say what each level of folders is with --folders: label (the first is the class), any/label (the second),"
        f" split/label, or any (there are no classes); or give --input the folder of the {plural} alone{beside}"
        f"{by_manifest}"
    )


def _plural(kind: str) -> str:
    found = re.search(r" (?:without|whose) ", kind)
    end = found.start() if found else len(kind)
    return f"{kind[:end]}s{kind[end:]}"


def label_notices(odd: Mapping[tuple[str, str], int], separators: Mapping[str, str]) -> list[str]:
    """What must be said of labels that are lists of classes.

    Args:
      odd: by label, in how many rows its list is `empty`, or of `several` classes, and how many are `repeated`.
      separators: at which the texts of labels were split.
    """
    said = []
    for (label, what), number in sorted(odd.items()):
        if number and what == "empty":
            have = "example has" if number == 1 else "examples have"
            said.append(f"{number:,} {have} no class of {label!r}: an empty list, of an empty or a missing value")
        elif number and what == "repeated":
            times = "once" if number == 1 else f"{number:,} times"
            said.append(f"a class of {label!r} is named again in its row {times}, and counts once there")
    for label, separator in separators.items():
        if not odd.get((label, "several")):
            said.append(f"no row has several values of {label!r}: is {separator!r} what stands between them?")
    return said
