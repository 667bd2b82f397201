"""Optional dependencies: which extras are installed, and TensorFlow imported on first use."""

import importlib
import importlib.util
import json
import os
import shlex
from typing import Any
from urllib.parse import unquote, urlsplit

from shardmill.errors import UserError


def check_beam() -> None:
    """Raise a UserError if Beam is not installed, as where `pip install --no-deps` installed what reading takes."""
    if importlib.util.find_spec("apache_beam") is None:
        raise UserError(f"this installation only reads data sets; to convert or verify, {install_hint()}")


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
