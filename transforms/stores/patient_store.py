"""An object store that is asked again where it may work in a minute, whatever it is asked for; and not for long by
whoever only clears up."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from shardmill.transforms.stores.brief import ask_briefly, is_brief
from shardmill.transforms.stores.patience import patiently
from shardmill.transforms.stores.protocol import FileStat, ObjectStore, Rename, Upload
from shardmill.transforms.stores.stored import ChangedError, Stored

_DELETED = 1000  # at once: as many as one request of S3 deletes

Item = TypeVar("Item")
Result = TypeVar("Result")


class PatientStore:
    """shardmill.transforms.stores.clients.ObjectStore; each operation has the outcome of one that was done once."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def read(self, url: str) -> bytes:
        """As ObjectStore says."""
        return _ask(self._store.read, url)

    def read_range(self, url: str, offset: int, length: int) -> bytes:
        """As ObjectStore says."""
        return _ask(self._store.read_range, url, offset, length)

    def write(self, url: str, data: bytes) -> None:
        """As ObjectStore says."""
        _ask(self._store.write, url, data)

    def upload(self, url: str) -> Upload | None:
        """As ObjectStore says; once: what has been written is gone, so whoever writes begins again."""
        return self._store.upload(url)

    def create(self, url: str, data: bytes) -> None:
        """As ObjectStore says, which finds its own bytes where an answer was lost."""
        _ask(self._store.create, url, data)

    def look(self, url: str) -> Stored:
        """As ObjectStore says."""
        return _ask(self._store.look, url)

    def replace(self, url: str, data: bytes, revision: str) -> None:
        """As ObjectStore says, which finds its own bytes where an answer was lost."""
        _ask(self._store.replace, url, data, revision)

    def delete_unchanged(self, url: str, revision: str) -> None:
        """As ObjectStore says; what is gone when it is asked again was deleted the first time."""
        asked = 0

        def delete() -> None:
            nonlocal asked
            asked += 1
            try:
                self._store.delete_unchanged(url, revision)
            except ChangedError:
                if asked == 1 or self._is_there(url):
                    raise

        _ask(delete)

    def size(self, url: str) -> int:
        """As ObjectStore says."""
        return _ask(self._store.size, url)

    def stat(self, url: str) -> FileStat:
        """As ObjectStore says."""
        return _ask(self._store.stat, url)

    def stats(self, prefix: str) -> Iterator[FileStat]:
        """As ObjectStore says."""
        return _resumed(lambda: self._store.stats(prefix), lambda found: found.path)

    def list(self, prefix: str) -> Iterator[tuple[str, int]]:
        """As ObjectStore says."""
        return _resumed(lambda: self._store.list(prefix), lambda found: found[0])

    def folders(self, prefix: str) -> Sequence[str]:
        """As ObjectStore says."""
        return _ask(self._store.folders, prefix)

    def delete(self, urls: Sequence[str]) -> None:
        """As ObjectStore says."""
        for start in range(0, len(urls), _DELETED):
            _ask(self._store.delete, urls[start : start + _DELETED])

    def rename(self, moves: Sequence[Rename]) -> None:
        """As ObjectStore says; what is gone when it is asked again was renamed the first time."""
        left = list(moves)

        def rename() -> None:
            nonlocal left
            if len(asked) > 0:
                left = [move for move in left if self._is_there(move.source) or not self._is_there(move.destination)]
            asked.append(True)
            self._store.rename(left)

        asked: list[bool] = []
        _ask(rename)

    def abort_uploads(self, prefix: str) -> None:
        """As ObjectStore says."""
        _ask(self._store.abort_uploads, prefix)

    def _is_there(self, url: str) -> bool:
        try:
            self._store.size(url)
        except FileNotFoundError:
            return False
        return True


def _ask(function: Callable[..., Result], *arguments: Any) -> Result:
    return (ask_briefly if is_brief() else patiently)(function, *arguments)


def _resumed(begin: Callable[[], Iterator[Item]], name_of: Callable[[Item], str]) -> Iterator[Item]:
    """A sorted listing, begun again where it broke off; what was there already is passed over."""
    last: str | None = None
    found = begin()

    def following() -> Item | None:
        nonlocal found
        try:
            return next((item for item in found if last is None or name_of(item) > last), None)
        except Exception:
            found = begin()
            raise

    while (item := _ask(following)) is not None:
        last = name_of(item)
        yield item
