"""Files through TensorFlow's file system, which knows gs:// and, with tensorflow_io imported, s3:// and more."""

import os
from typing import BinaryIO, cast

from shardmill.errors import UserError
from shardmill.filesystems.local import Files, LocalFiles
from shardmill.installation.lazy_tensorflow import tf


class GFiles:
    """`tf.io.gfile`; TensorFlow is imported at the first call."""

    def open(self, path: str) -> BinaryIO:
        """Open `path` for reading; raises FileNotFoundError."""
        if not self.exists(path):
            raise FileNotFoundError(path)
        return cast(BinaryIO, tf.io.gfile.GFile(path, "rb"))

    def exists(self, path: str) -> bool:
        """Whether there is a file at `path`.

        Raises:
          UserError: TensorFlow has no file system for the path's scheme.
        """
        try:
            return tf.io.gfile.exists(path)
        except tf.errors.UnimplementedError as error:
            scheme = path.split("://")[0]
            raise UserError(
                f"{path}: TensorFlow has no file system for {scheme}://; import tensorflow_io first, which adds some"
            ) from error

    def size(self, path: str) -> int:
        """The size of a file in bytes; raises FileNotFoundError."""
        try:
            return tf.io.gfile.stat(path).length
        except tf.errors.NotFoundError as error:
            raise FileNotFoundError(path) from error

    def folders(self, path: str) -> list[str]:
        """The names in a folder; raises OSError."""
        try:
            return [name.rstrip("/") for name in tf.io.gfile.listdir(path)]
        except tf.errors.OpError as error:
            raise OSError(f"{path} cannot be listed: {error.message}") from error


def files_for(path: str | os.PathLike[str]) -> Files:
    """The files to read `path` through: local ones, or TensorFlow's where it has a scheme."""
    return GFiles() if "://" in os.fspath(path) else LocalFiles()
