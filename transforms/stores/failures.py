"""What becomes of a file that cannot be read, wherever it is read.

An object store that fails may well work in a minute: its error is raised, and the runner tries again. A disk that fails
will not get better, and a store that says there is no such file has answered: the file is a reject, or stops the job
with a sentence.
"""

from transforms.stores import storage


def raise_if_store_failed(error: OSError, path: str, answers: tuple[type[OSError], ...] = (FileNotFoundError,)) -> None:
    """Raise `error`, which came of reading `path`, again if trying again may help.

    Args:
      error: as it was raised.
      path: of the file, or of a folder of the same store.
      answers: the errors by which a store says something of this file, rather than fails.

    Raises:
      OSError: `error`.
    """
    if not storage.is_local(path) and not isinstance(error, answers):
        raise error
