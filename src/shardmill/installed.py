"""Optional dependencies: which extras are installed, TensorFlow imported on first use, Beam imported without them."""

import gc
import importlib
import importlib.util
import json
import os
import re
import resource
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit

from shardmill.errors import UserError


def check_beam() -> None:
    """Raise a UserError if Beam is not installed, as where `pip install --no-deps` installed what reading takes."""
    if importlib.util.find_spec("apache_beam") is None:
        raise UserError(f"this installation only reads data sets; to convert or verify, {install_hint()}")


# Beam imports each of these if it is installed, for stores, databases, runners and notebooks. With all extras that
# takes three quarters of a small job's time. A job on local files uses none of them through Beam.
_UNUSED_BY_LOCAL_JOBS = (
    *("IPython", "apache_beam.io.gcp", "apitools", "azure", "boto3", "bson", "dill", "google.api_core", "google.auth"),
    *("google.cloud", "hdfs", "pandas", "pymongo", "requests"),
)
_HIDDEN = tuple(f"{name}." for name in _UNUSED_BY_LOCAL_JOBS)
# Beam always imports these, and a local job calls nothing of them
_LOADED_ON_USE = ("httplib2", "yaml")
_LEAST_ADDRESSES = 1_000_000 << 10  # as `ulimit -v` counts; with less, threads of C++ end the process
_runs_one_command = False


def run_one_command() -> None:
    """Declare that this process runs one command and no other code; see `importing_beam`."""
    global _runs_one_command
    _runs_one_command = True


def describe_lack_of_memory(error: Exception) -> str:
    """Return a sentence on an error for lack of memory or threads; "" for any other error."""
    if not isinstance(error, MemoryError) and not re.search("start new thread|map segment|allocate mem", str(error)):
        return ""
    if (limit := resource.getrlimit(resource.RLIMIT_AS)[0]) != resource.RLIM_INFINITY:
        return f"no memory was left: `ulimit -v` is {limit >> 10:,}; a small job takes 2,000,000"
    return "no memory was left in a worker; give fewer --threads, or workers with more memory"


@contextmanager
def importing_beam(for_local_files: bool) -> Iterator[None]:
    """Import Beam faster while the context lasts: no garbage is searched for among the imported objects.

    In a process of one command it is never searched for among them; Beam `for_local_files` is imported as if libraries
    that it uses for other jobs were not installed. Raises MemoryError if the process may have less than that takes.
    """
    if 0 <= resource.getrlimit(resource.RLIMIT_AS)[0] < _LEAST_ADDRESSES:
        raise MemoryError
    if "apache_beam" in sys.modules or not gc.isenabled() or gc.get_freeze_count():
        yield
        return
    gc.disable()
    try:
        with _hiding_unused() if for_local_files and _runs_one_command else nullcontext():
            yield
    finally:
        if "apache_beam" in sys.modules:
            gc.freeze()
            if not _runs_one_command:
                gc.unfreeze()  # all objects are old now, without a search among them
        gc.enable()


@contextmanager
def _hiding_unused() -> Iterator[None]:
    import logging  # late: readers import this module

    finder, level = _Hiding(), logging.root.manager.disable
    sys.meta_path.insert(0, finder)
    logging.disable(logging.WARNING)  # Beam warns of libraries that it does not find
    try:
        for name in _LOADED_ON_USE:
            _import_on_use(name)
        yield
        import pyarrow as pa

        pa.array([None])  # looks for pandas, once; a table of pandas' cannot come from files
    finally:
        sys.meta_path.remove(finder)
        logging.disable(level)


class _Hiding:
    """A finder that finds no library of `_UNUSED_BY_LOCAL_JOBS`, see https://docs.python.org/3/library/importlib.html."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if f"{name}.".startswith(_HIDDEN):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _import_on_use(name: str) -> None:
    """Let `import name` give a placeholder that imports the module when an attribute is read.

    Python's own LazyLoader imports the module as soon as a second module imports it.
    """
    placeholder: Any = ModuleType(name)

    def load(attribute: str) -> Any:
        if sys.modules.get(name) is placeholder:
            del sys.modules[name]
        return getattr(importlib.import_module(name), attribute)

    spec = None if name in sys.modules else importlib.util.find_spec(name)
    if spec is not None:
        placeholder.__spec__, placeholder.__file__, placeholder.__getattr__ = spec, spec.origin, load
        sys.modules[name] = placeholder


def install_hint(extra: str = "", project: str = "shardmill") -> str:
    """Return the command that adds `extra`, or all that converting takes, to this installation, from the same source.

    pip records a project's source in direct_url.json, see https://peps.python.org/pep-0610/.
    """
    from importlib import metadata  # which takes longer than all else here, and is wanted once

    try:
        text = metadata.distribution(project).read_text("direct_url.json")
        found = json.loads(text) if text else {}
    except (metadata.PackageNotFoundError, ValueError):
        found = {}
    return hint_from_direct_url(found, extra)


def hint_from_direct_url(direct_url: object, extra: str = "") -> str:
    """Return the command that adds `extra`, given the content of direct_url.json, or {} if the file does not exist."""
    extras = f"[{extra}]" if extra else ""
    content = direct_url if isinstance(direct_url, dict) else {}
    url, vcs = content.get("url"), content.get("vcs_info")
    if isinstance(url, str) and isinstance(vcs, dict) and isinstance(vcs.get("vcs"), str):
        commit = f"@{vcs['commit_id']}" if isinstance(vcs.get("commit_id"), str) else ""
        requirement = f"shardmill{extras} @ {vcs['vcs']}+{url}{commit}"
        return f"run: pip install {shlex.quote(requirement)}"
    path = unquote(urlsplit(url).path) if isinstance(url, str) and url.startswith("file://") else ""
    if not path or not os.path.exists(path):  # built elsewhere, or in a folder that is gone
        return f"in shardmill's folder, run: pip install {shlex.quote(f'.{extras}')}"
    folder = content.get("dir_info")
    editable = "-e " if isinstance(folder, dict) and folder.get("editable") else ""
    return f"run: pip install {editable}{shlex.quote(f'{path}{extras}')}"


class _LazyTensorFlow:
    """A lazy replacement for the module `tensorflow` that imports it when an attribute is read."""

    def __getattr__(self, name: str) -> Any:
        try:
            module = importlib.import_module("tensorflow")
        except ModuleNotFoundError as error:
            if error.name != "tensorflow":
                raise
            raise UserError(f"reading into tensors needs TensorFlow; {install_hint('tensorflow')}") from None
        value = getattr(module, name)
        setattr(self, name, value)
        return value


tf: Any = _LazyTensorFlow()
