"""Whether a local path stays in its folder, symbolic links followed."""

import os


class LinksInside:
    """`LinksInside(root)(path)`: whether what `path` leads to lies below what `root` leads to.

    Folders are looked at once; a file that is no link costs one `lstat`. One that does not exist is inside: that it is
    missing is said elsewhere.
    """

    def __init__(self, root: str) -> None:
        self._root = os.path.realpath(root)
        self._folders: dict[str, bool] = {}

    def __call__(self, path: str) -> bool:
        """Whether what `path` leads to is inside."""
        folder = os.path.dirname(path)
        known = self._folders.get(folder)
        if known is None:
            known = self._folders[folder] = self._is_inside(folder or ".")
        return self._is_inside(path) if os.path.islink(path) else known

    def _is_inside(self, path: str) -> bool:
        return f"{os.path.realpath(path)}/".startswith(f"{self._root.rstrip('/')}/")
