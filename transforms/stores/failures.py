"""What becomes of a file that cannot be read, wherever it is read.

An object store that fails may well work in a minute: its error is raised, and the runner tries again. A store that says
there is no such object (404), or that this one may not be read (403), has answered, and will say the same again: the
file is a reject, or stops the job with a sentence. So is a disk's fault, which does not get better. It is one rule for
every route; what a store's client raises for which answer is in gcs.py and s3.py, where a 403 that is about who asks
(a wrong key, a rate that is exceeded) rather than about the object is a store that fails.
"""

from shardmill.transforms.stores import storage
from shardmill.transforms.stores.error_text import NotAFileError

_ANSWERS = (FileNotFoundError, PermissionError, NotAFileError)  # 404, 403, and a member of an archive that is no good


def raise_if_store_failed(error: OSError, path: str) -> None:
    """Raise `error`, which came of reading `path`, again if trying again may help.

    Args:
      error: as it was raised.
      path: of the file, or of a folder of the same store.

    Raises:
      OSError: `error`.
    """
    if not storage.is_local(path) and not isinstance(error, _ANSWERS):
        raise error
