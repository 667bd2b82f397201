"""YOLO's data.yaml: the names of all classes, and where the images of each split are.

See docs.ultralytics.com/datasets: `kpt_shape` is how many key points an object has, and how many numbers each of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from shardmill.errors import UserError
from shardmill.transforms.columns.nested import shown
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.error_text import error_text
from shardmill.transforms.stores.failures import raise_if_store_failed

_SPLITS = ("train", "val", "test")


@dataclass(frozen=True, slots=True)
class Described:
    """What stands in a data.yaml.

    Attributes:
      names: of the classes, by id.
      splits: the folders or lists of each.
      folder: where these are looked for; "" beside the file.
      points: how many numbers of key points each object has.
    """

    names: tuple[str, ...]
    splits: Mapping[str, tuple[str, ...]]
    folder: str
    points: int = 0


def describe(path: str) -> Described:
    """Read a data.yaml.

    Raises:
      UserError: there is none, or it is none.
      OSError: a store failed.
    """
    try:
        data = storage.read_bytes(path)
        content = yaml.safe_load(data)
    except FileNotFoundError:
        raise UserError(f"--yolo {path}: no such file") from None
    except OSError as error:
        raise_if_store_failed(error, path)
        raise UserError(f"--yolo {path} cannot be read: {error_text(error)}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(f"--yolo {path} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise UserError(f"--yolo {path}: expected names: and train:, val: or test:, and found {shown(content)}")
    splits = {name: _entries(content[name], name, path) for name in _SPLITS if content.get(name)}
    if not splits:
        raise UserError(f"--yolo {path} names no images: expected train:, val: or test:")
    # As they are spelled: to YAML, a class called no is False, and one called 010 is 8
    names = _names(yaml.load(data, yaml.BaseLoader).get("names"), path)
    if (number := content.get("nc", len(names))) != len(names):
        raise UserError(f"--yolo {path}: nc is {shown(number)}, and there are {len(names)} names; which is right?")
    return Described(names, splits, str(content.get("path") or ""), _points(content.get("kpt_shape"), path))


def _entries(value: Any, name: str, path: str) -> tuple[str, ...]:
    entries = value if isinstance(value, list) else [value]
    if not all(isinstance(entry, str) for entry in entries):
        raise UserError(f"--yolo {path}: {name} is {shown(value)}; expected a folder, some, or a .txt file")
    return tuple(entries)


def _names(value: Any, path: str) -> tuple[str, ...]:
    ids = [str(index) for index in range(len(value))] if isinstance(value, dict) else []
    if ids and set(value) == set(ids):
        value = [value[index] for index in ids]
    if not isinstance(value, list) or not value or not all(isinstance(name, str) and name for name in value):
        raise UserError(f"--yolo {path}: names is {shown(value)}; expected the names of the classes, from id 0")
    return tuple(value)


def _points(value: Any, path: str) -> int:
    if value is None:
        return 0
    if not (isinstance(value, list) and len(value) == 2 and all(type(each) is int and each > 0 for each in value)):
        raise UserError(f"--yolo {path}: kpt_shape is {shown(value)}; expected the number of key points, and 2 or 3")
    return int(value[0] * value[1])
