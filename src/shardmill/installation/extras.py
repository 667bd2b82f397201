"""How an extra is added to the installation that runs: the project's name in a package index may be somebody else's."""

import json
import os
import shlex
from urllib.parse import unquote, urlsplit

_UNKNOWN = "in shardmill's folder, run: pip install {}"


def install_hint(extra: str, project: str = "shardmill") -> str:
    """What to run to have `extra` too, as this installation was made.

    pip writes where it took a project from into direct_url.json. Source: https://peps.python.org/pep-0610/
    """
    from importlib import metadata  # which takes longer than all else here, and is wanted once

    try:
        text = metadata.distribution(project).read_text("direct_url.json")
        found = json.loads(text) if text else {}
    except (metadata.PackageNotFoundError, ValueError):
        found = {}
    return hint_of(found, extra)


def hint_of(direct_url: object, extra: str) -> str:
    """The same of the content of a direct_url.json, {} where there is none."""
    content = direct_url if isinstance(direct_url, dict) else {}
    url, vcs = content.get("url"), content.get("vcs_info")
    if isinstance(url, str) and isinstance(vcs, dict) and isinstance(vcs.get("vcs"), str):
        commit = f"@{vcs['commit_id']}" if isinstance(vcs.get("commit_id"), str) else ""
        requirement = f"shardmill[{extra}] @ {vcs['vcs']}+{url}{commit}"
        return f"run: pip install {shlex.quote(requirement)}"
    path = unquote(urlsplit(url).path) if isinstance(url, str) and url.startswith("file://") else ""
    if not path or not os.path.exists(path):  # built elsewhere, or in a folder that is gone
        return _UNKNOWN.format(shlex.quote(f".[{extra}]"))
    folder = content.get("dir_info")
    editable = "-e " if isinstance(folder, dict) and folder.get("editable") else ""
    return f"run: pip install {editable}{shlex.quote(f'{path}[{extra}]')}"
