"""Writes metadata.json beside this file, from what the commands declare of their flags."""

import json
from pathlib import Path

from shardmill.pipelines.commands.template import metadata

if __name__ == "__main__":
    text = json.dumps(metadata(), indent=2) + "\n"
    Path(__file__).with_name("metadata.json").write_text(text)
