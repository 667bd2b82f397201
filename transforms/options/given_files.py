"""Files that an option names, whose content is its value."""

from shardmill.errors import UserError


def read_given(name: str, path: str) -> bytes:
    """The bytes of the file at a path that was given as --`name`; raises UserError where they cannot be read."""
    from shardmill.transforms.stores import storage

    try:
        return storage.read_bytes(path)
    except OSError as error:
        raise UserError(f"--{name} {path}: {error.strerror or error}") from None
