"""The names of columns: which there are, and that flags name no others."""

import difflib
from collections.abc import Sequence

from shardmill.errors import UserError
from shardmill.features.feature import Features
from shardmill.transforms.inputs.folders import quoted
from shardmill.transforms.inputs.summary import InputSummary
from shardmill.transforms.layout.table_options import TableOptions
from shardmill.transforms.options.splits import CONTENT

_LISTED = 20  # columns that an error lists


def common_header(summary: InputSummary, options: TableOptions) -> tuple[str, ...]:
    """The columns in the order of the first file by name; () where files have no headers.

    Raises:
      UserError: the headers of two files have different columns.
    """
    if not summary.headers:
        return ()
    ordered = sorted(summary.headers.items(), key=lambda item: item[1][1])
    first, (_, first_name) = ordered[0]
    for columns, (number, name) in ordered[1:]:
        if set(columns) == set(first):
            continue
        missing, extra = sorted(set(first) - set(columns)), sorted(set(columns) - set(first))
        parts = [
            *([f"lacks {quoted(missing)}"] if missing else []),
            *([f"has {quoted(extra)} beside"] if extra else []),
        ]
        more = f", as {number - 1} more file{'s do' if number > 2 else ' does'}" if number > 1 else ""
        raise UserError(
            f"{options.source}: headers differ: {name!r} {' and '.join(parts)} what {first_name!r} has{more}"
        )
    return first


def check_columns(known: Sequence[str], options: TableOptions) -> None:
    """Check that the columns that flags name are among those `known`.

    Raises:
      UserError: one is not, or means two things at once; the flag, and the nearest name.
    """
    flags = {
        "--label": options.label_columns,
        options.key_said: [options.key] if options.key else [],
        "--group_by": [options.split.group_by] if options.split.group_by else [],
        "--stratify_by": [options.split.stratify_by] if options.split.stratify_by else [],
        "--image": options.images,
        "--timestamp": options.times,
        "--drop": options.drop,
        "--only": options.only,
        "--fill": [column for column, _ in options.fill if not has_column(options.schema, column)],
    }
    for flag, columns in flags.items():
        for column in columns:
            if column not in known and (flag, column) != ("--group_by", CONTENT):
                hint = "it stands for the column of --label, which is not given; " if flag in options.says_label else ""
                raise UserError(f"{flag} {column}: no such column in {options.source}; {hint}{nearest(column, known)}")
    for flag in options.says_label:
        if options.label_columns and "label" not in options.label_columns and "label" in known:
            label = options.label_columns[0]
            raise UserError(
                f"{flag} label is ambiguous: there is a column 'label', and --label is {label}; "
                f"give {flag} {label}, or rename the column 'label'"
            )
    for image in options.images:
        for flag, columns in (("--label", options.label_columns), ("--drop", options.drop)):
            if image in columns:
                raise UserError(f"--image {image} is also in {flag}; drop the one or the other")
    for flag, columns in (("--label", options.label_columns), ("--timestamp", options.times)):
        for column in columns:
            if column in options.drop:
                raise UserError(f"{flag} {column} is also in --drop; drop the one or the other")


def has_column(schema: Features | None, column: str) -> bool:
    """Whether a schema has a feature of that name."""
    return any(feature.name == column for feature in schema or ())


def nearest(column: str, known: Sequence[str]) -> str:
    """What follows an error that `column` is none of those that are `known`."""
    near = difflib.get_close_matches(column, known, 1)
    listed = ", ".join(known[:_LISTED]) + (f" and {len(known) - _LISTED} more" if len(known) > _LISTED else "")
    return (f"did you mean {near[0]}? " if near else "") + f"the columns are {listed}"
