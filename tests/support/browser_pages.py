"""Pages in a real browser: Chromium, with axe-core, by open_pages.mjs; `make page` installs what that needs."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent / "browser"


def open_pages(pages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What came of each page, opened in light and in dark.

    Args:
      pages: objects with the `file`, whether `axe` looks at it, and if wanted `screenshot`, `at`, `width` and `height`.
    """
    chromium = shutil.which("chromium")
    assert chromium is not None, "there is no chromium; `make page` installs it"
    command = ["node", str(_FOLDER / "open_pages.mjs"), chromium, json.dumps(pages)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found
