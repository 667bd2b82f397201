"""The columns of a manifest: checked before its rows are read."""

from collections.abc import Collection, Sequence

from shardmill.errors import UserError
from shardmill.transforms.inputs.companions import further_files
from shardmill.transforms.inputs.manifests.names import ManifestNames, flag_of

_SHOWN_COLUMNS = 200  # letters of the names of all


def check_header(header: Sequence[str], path: str, reserved: Collection[str], names: ManifestNames) -> None:
    """Check the columns that a manifest has; raises UserError."""
    if encoding_problem(header):
        raise UserError(f"--manifest {path}: the header is not UTF-8; save the file as UTF-8")
    columns = ", ".join(header)[:_SHOWN_COLUMNS]
    if not set(header) & set(names.files):
        hint = "" if names.file else "; --file_column says which names the files"
        if not names.file and (further := further_files(header)):
            hint = f"; --file_column {','.join(further)} says that these name the files of an example, its image first"
        if len(header) == 1 and set(header[0]) & set("\t;|"):
            hint = "; between the columns of a manifest stand commas"
        raise UserError(f"--manifest {path} has no column {' or '.join(names.files)}; its columns are {columns}{hint}")
    if names.label != "label" and names.label not in header:
        raise UserError(
            f"--label_column {names.label}: --manifest {path} has no such column; its columns are {columns}"
        )
    for item in names.companions:
        if item.column not in header:
            raise UserError(
                f"{flag_of(item)} {item.column}: --manifest {path} has no such column; its columns are {columns}"
            )
    for name in header:
        if header.count(name) > 1:
            raise UserError(f"--manifest {path} has the column {name!r} twice")
        check_column(name, path, reserved)


def check_column(name: str, path: str, reserved: Collection[str]) -> None:
    """Check that a further column can be called `name`; raises UserError."""
    if not name:
        raise UserError(f"--manifest {path} has a column without a name")
    if name in reserved:
        raise UserError(
            f"--manifest {path} has a column {name!r}, which is the name of a feature that every example has"
        )


def encoding_problem(cells: Sequence[str]) -> str | None:
    """Why texts, read with surrogateescape, cannot be stored; None if they can."""
    try:
        for cell in cells:
            cell.encode()
    except UnicodeEncodeError:
        return "the row is not UTF-8"
    return None
