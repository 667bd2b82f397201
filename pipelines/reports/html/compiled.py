"""Templates compiled once an installation, as Python's modules are and beside these: to compile that of the page takes
ten times as long as to fill it in."""

import os
import sys
from contextlib import suppress
from importlib.util import cache_from_source

from jinja2 import FileSystemBytecodeCache
from jinja2.bccache import Bucket

import shardmill


class CompiledTemplates(FileSystemBytecodeCache):
    """What jinja2 made of templates, by their text and this version; where nothing can be kept, it makes it anew."""

    def __init__(self) -> None:
        super().__init__(os.path.dirname(cache_from_source(__file__)), f"%s-{shardmill.__version__}.jinja2")

    def load_bytecode(self, bucket: Bucket) -> None:
        """As the base does, and none of what cannot be read, as within an archive."""
        with suppress(OSError):
            super().load_bytecode(bucket)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """As the base does, unless the folder cannot be written to, or Python is told to write none of its own."""
        if not sys.dont_write_bytecode:
            with suppress(OSError):
                super().dump_bytecode(bucket)
