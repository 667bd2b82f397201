"""What a new version changes, in a line: what a command that publishes one beside an older one ends with."""

from shardmill.checks.difference import since
from shardmill.checks.profile import Profile
from shardmill.dataset import open_dataset
from shardmill.errors import CorruptDataError, UserError
from transforms.stores import storage


def profile_of(directory: str) -> Profile | None:
    """The profile of a version, or of the one that LATEST names in the folder above; None where none can be read."""
    try:
        return Profile.of(open_dataset(directory, storage.BeamFiles()))
    except (UserError, CorruptDataError, OSError):
        return None


def since_line(directory: str, old: Profile | None) -> str:
    """What the version in `directory` changes; "" where there was none before, or one of the two cannot be read."""
    new = profile_of(directory) if old is not None else None
    return since(new, old) if old is not None and new is not None else ""
