"""Writes metadata.json beside this file, from what the commands declare of their flags."""

import json
from pathlib import Path

from launch import template_metadata

if __name__ == "__main__":
    text = json.dumps(template_metadata(), indent=2) + "\n"
    Path(__file__).with_name("metadata.json").write_text(text)
