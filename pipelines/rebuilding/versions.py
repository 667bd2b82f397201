"""Which version a rebuild makes."""

from functools import partial

from shardmill.metadata import naming
from shardmill.pipelines.recipes.sections import AUTO
from shardmill.transforms.publishing.build_records import newest_built
from shardmill.transforms.publishing.catalog import newest_version
from shardmill.transforms.stores.together import together
from shardmill.versions.published import numbers

FIRST = "1.0.0"


def version_to_build(asked: str, parent: str) -> str:
    """`asked`, or of `auto` the patch after the newest version that there is, or was: a number is given once.

    Args:
      asked: as the recipe says it, or the command line.
      parent: the folder of all versions.

    Raises:
      OSError: that cannot be listed.
    """
    if asked != AUTO:
        return asked
    # Not of folders that a job builds now: two builders want the same version, so that the second stands back.
    found = list(filter(None, together(parent, partial(newest_version, parent), partial(newest_built, parent))))
    return next_patch(max(found, key=numbers)) if found else FIRST


def next_patch(version: str) -> str:
    """The version after one: `1.0.4` after `1.0.3`."""
    assert naming.is_version(version)
    major, minor, patch = numbers(version)
    return f"{major}.{minor}.{patch + 1}"
