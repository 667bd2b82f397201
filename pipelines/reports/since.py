"""What a new version changes, in a line: what a command that publishes one beside an older one ends with."""

from shardmill.checks.difference import since
from shardmill.checks.profile import Profile
from shardmill.errors import CorruptDataError, UserError
from shardmill.reading.dataset import Dataset, open_dataset
from transforms.stores import storage


def profile_of(directory: str) -> Profile | None:
    """The profile of a version, or of the one that LATEST names in the folder above; None where none can be read."""
    try:
        return Profile.of(open_dataset(directory, storage.StorageFiles()))
    except (UserError, CorruptDataError, OSError):
        return None


def since_line(dataset: Dataset, old: Profile | None) -> str:
    """What a version changes; "" where there was none before, or one of the two cannot be read."""
    if old is None:
        return ""
    try:
        return since(Profile.of(dataset), old)
    except (UserError, CorruptDataError, OSError):
        return ""
