"""What a new version changes, in a line: what a command that publishes one beside an older one ends with."""

from shardmill.checks.difference import since
from shardmill.checks.profile import Profile
from shardmill.errors import CorruptDataError, UserError
from shardmill.reading.dataset import Dataset, open_dataset
from shardmill.transforms.stores import storage


def profile_of(directory: str) -> Profile | None:
    """The profile of a version, or of the one that LATEST names in the folder above; None where none can be read."""
    try:
        return Profile.of(open_dataset(directory, storage.StorageFiles()))
    except (UserError, CorruptDataError, OSError):
        return None


def profile_of_opened(dataset: Dataset) -> Profile | None:
    """The profile of a version that is open; None where its statistics cannot be read."""
    try:
        return Profile.of(dataset)
    except (UserError, CorruptDataError, OSError):
        return None


def since_line(new: Profile | None, old: Profile | None) -> str:
    """What a version changes; "" where there was none before, or one of the two cannot be read."""
    return "" if new is None or old is None else since(new, old)
