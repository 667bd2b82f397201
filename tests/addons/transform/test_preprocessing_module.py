"""Tests of PreprocessingModule of addons/transform/preprocessing_module.py."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from apache_beam.internal import pickler

from shardmill.addons.transform.preprocessing_module import OPTION, PreprocessingModule
from shardmill.errors import UserError

TEXT = """
from __future__ import annotations
import dataclasses

@dataclasses.dataclass
class Scale:
    factor: float
    def __call__(self, value: int) -> float:
        return value * self.factor

def preprocessing_fn(inputs):
    return {name: Scale(2.5)(value) for name, value in inputs.items()}
"""


def made(text: str = TEXT) -> PreprocessingModule:
    return PreprocessingModule.from_bytes("preprocessing.py", text.encode(), OPTION)


def printed_by(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], cwd="/", capture_output=True, text=True, check=True).stdout


def test_it_does_what_its_function_does() -> None:
    assert made()({"a": 2}) == {"a": 5.0}


def test_a_pickle_of_it_holds_the_text_and_runs_it_anew() -> None:
    module = made()
    module({"a": 1})
    data = pickle.dumps(module)

    assert b"class Scale" in data
    assert data == pickle.dumps(made())
    assert printed_by(f"import pickle; print(pickle.loads({data!r})({{'a': 2}}))") == "{'a': 5.0}\n"


def test_two_modules_of_one_name_are_two() -> None:
    assert made()({"a": 2}) != made(TEXT.replace("2.5", "3"))({"a": 2})


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"x = 1\n  y = 2", "--module_file m.py line 2 is no Python: unexpected indent"),
        (b"x = \0", "--module_file m.py is no Python: source code string cannot contain null bytes"),
        (b"x = '\xff'", "--module_file m.py is no text in UTF-8"),
    ],
)
def test_what_is_no_python_is_said_at_once(data: bytes, sentence: str) -> None:
    with pytest.raises(UserError) as caught:
        PreprocessingModule.from_bytes("m.py", data, OPTION)

    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("return {'x': inputs['aga']}", "line 2: feature 'aga' is not there; did you mean age?"),
        ("return {'x': {}[3]}", "line 2: preprocessing_fn raises KeyError: 3"),
        (
            "return helper(inputs)\ndef helper(inputs):\n raise ValueError('no\\n more')",
            "line 4: preprocessing_fn raises",
        ),
        ("raise RuntimeError", "line 2: preprocessing_fn raises RuntimeError"),
        ("return None", "preprocessing_fn returns nothing; expected a dictionary of tensors"),
        ("return [inputs]", "preprocessing_fn returns a list; expected a dictionary of tensors"),
        ("return {}", "preprocessing_fn returns an empty dictionary"),
        ("raise __import__('shardmill').UserError('--module_file preprocessing.py: mine')", "preprocessing.py: mine"),
    ],
)
def test_what_its_function_does_wrong_is_said_with_the_line(body: str, sentence: str) -> None:
    module = made(f"def preprocessing_fn(inputs):\n {body}")

    with pytest.raises(UserError) as caught:
        module({"age": 1})

    assert str(caught.value).startswith("--module_file preprocessing.py")
    assert sentence in str(caught.value)


RUN = "def preprocessing_fn(inputs):\n    return {'x': result}\n"
SCALE = "FACTOR = 3\ndef scale(value):\n    return value * FACTOR\n"


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


A, FEATURES, INIT = {"a.py": "VALUE = 7"}, {"features.py": "VALUE = 7"}, {"__init__.py": ""}
CIRCLE = {
    "lib/__init__.py": "from lib.deep.ops import twice",
    "lib/deep/__init__.py": "",
    "lib/deep/ops.py": "from ..base import ONE\nfrom . import more\ndef twice(x): return 2 * x + ONE",
    "lib/deep/more.py": "import lib.deep.ops",
    "lib/base.py": "ONE = 1",
}
UNUSED = {"lib/unused.py": "raise RuntimeError"}
STAR = {"lib/__init__.py": "__all__ = ['a']", "lib/a.py": "VALUE = 7"}
OTHER = {"features.py": "from common.names import VALUE"}


@pytest.mark.parametrize(
    ("files", "first", "carried"),
    [
        # A module beside it, and one that this imports
        (
            {"features.py": "import numbers_\nvalue = numbers_.VALUE", "numbers_.py": "VALUE = 7"},
            "from features import value as result",
            ["features.py", "numbers_.py"],
        ),
        # TFX's layout: models/preprocessing.py imports models.features, with and without __init__.py
        (FEATURES, "from models import features; result = features.VALUE", ["models/features.py"]),
        (FEATURES | INIT, "from models.features import VALUE as result", ["models/__init__.py", "models/features.py"]),
        (FEATURES, "from .features import VALUE as result", ["models/features.py"]),
        (FEATURES, "from . import features; result = features.VALUE", ["models/features.py"]),
        (
            OTHER | INIT | {"../common/names.py": "VALUE = 7"},
            "from models.features import VALUE as result",
            ["common/names.py", "models/__init__.py", "models/features.py"],
        ),
        ({"../names.py": "VALUE = 7"}, "from ..names import VALUE as result", ["parent/names.py"]),
        # Packages with sub-folders, relative imports within, and a circle
        (CIRCLE | UNUSED, "import lib; result = lib.twice(3)", [*sorted(CIRCLE)]),
        (STAR | UNUSED, "from lib import *; result = a.VALUE", ["lib/__init__.py", "lib/a.py"]),
        ({"lib/a.py": "VALUE = 7"}, "import lib.a as a; result = a.VALUE", ["lib/a.py"]),
        (STAR | {"lib.py": "raise RuntimeError"}, "from lib.a import VALUE as result", ["lib/__init__.py", "lib/a.py"]),
        (A, "import importlib; result = importlib.import_module('a').VALUE", ["a.py"]),
        (A, "try:\n    from models_ import a\nexcept ImportError:\n    import a\nresult = a.VALUE", ["a.py"]),
        # Folders without Python, such as numpy/ with data, hide nothing that is installed
        ({"numpy/data.txt": "", "json/old.py": "x = 1"}, "import json; result = 7; import numpy", []),
        ({"notes.py": "no Python at all", "vocabulary.txt": "a"}, "result = 7", []),
    ],
)
def test_what_it_imports_of_its_folder_travels_with_it(
    tmp_path: Path, files: dict[str, str], first: str, carried: list[str]
) -> None:
    folder = tmp_path / "parent" / "models"
    write(folder, {**files, "preprocessing.py": f"{first}\n{RUN}"})

    module = PreprocessingModule.read(str(folder / "preprocessing.py"), OPTION)

    assert [path for path, _ in module.neighbours] == carried
    assert sorted(module.to_json().get("modules", {})) == carried
    before, finders = set(sys.modules), list(sys.meta_path)
    assert module({})["x"] == 7
    assert {name.partition(".")[0] for name in set(sys.modules) - before} & {"lib", "models", "features", "a"} == set()
    assert sys.meta_path == finders
    assert printed_by(f"import pickle; print(pickle.loads({pickle.dumps(module)!r})({{}}))") == "{'x': 7}\n"


def test_a_folder_named_by_a_relative_path_and_its_imports_when_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(
        tmp_path,
        {
            "models/scales.py": SCALE,
            "models/m.py": "def preprocessing_fn(inputs):\n from models import scales\n return {'x': scales.scale(2)}",
        },
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))  # as `python -m shardmill` and PYTHONPATH=. have it

    module = PreprocessingModule.read("models/m.py", OPTION)

    assert module({}) == {"x": 6}
    assert module({}) == {"x": 6}
    assert "models" not in sys.modules


def test_what_it_and_its_neighbours_define_reaches_a_process_that_has_no_such_module(tmp_path: Path) -> None:
    text = "import scales\nclass Scale:\n    def __call__(self, value): return scales.scale(value)\n"
    write(tmp_path, {"scales.py": SCALE, "lib/kinds.py": text})
    write(tmp_path, {"m.py": "from lib.kinds import Scale\ndef preprocessing_fn(inputs):\n    return {'x': Scale()}"})
    scales = (
        made().function().__globals__["Scale"](3.0),
        PreprocessingModule.read(str(tmp_path / "m.py"), OPTION)({})["x"],
    )

    program = "from apache_beam.internal import pickler; print(*(pickler.loads(data)(2) for data in {}))"
    assert printed_by(program.format([pickler.dumps(scale) for scale in scales])) == "6.0 6\n"


def test_modules_beside_two_modules_may_have_one_name(tmp_path: Path) -> None:
    text = "from features import VALUE as result\n" + RUN
    for number in range(2):
        write(tmp_path / str(number), {"features.py": f"VALUE = {number}", "m.py": text})
    one, other = (PreprocessingModule.read(str(tmp_path / str(number) / "m.py"), OPTION) for number in range(2))

    assert [one({}), other({}), one({})] == [{"x": 0}, {"x": 1}, {"x": 0}]
    assert one.to_json() != other.to_json()
    assert one.sha256 == other.sha256


EMPTY = {"a.py": ""}
WHICH, IMPORTED = "which could be {folder}", "what it imports must be"


@pytest.mark.parametrize(
    ("files", "first", "sentence"),
    [
        ({"a.py": "x = (1"}, "import a", "m.py: a.py line 1 is no Python: '(' was never closed"),
        (
            {"a.py": "import b", "b.py": "x = 1\ny = x / 0"},
            "import a",
            "m.py: b.py line 2 does not import: ZeroDivisionError",
        ),
        (EMPTY, "from a import b", "line 1 does not import: ImportError: cannot import name 'b' from 'a'"),
        (EMPTY, "import nowhere", f"line 1 does not import: No module named 'nowhere'; {IMPORTED}"),
        ({"a.so": ""}, "import a", f"No module named 'a'; {IMPORTED} installed, here and on workers, or be a .py file"),
        (
            {"numpy.py": ""},
            "import os\nimport numpy",
            f"m.py line 2 imports 'numpy', {WHICH}/numpy.py and the installed ",
        ),
        ({"json/__init__.py": ""}, "import json.decoder", f"{WHICH}/json/__init__.py and the installed "),
        (
            {"a.py": "import statistics", "statistics.py": ""},
            "import a",
            "m.py: a.py line 1 imports 'statistics', which could be",
        ),
        (
            EMPTY | INIT | {"../a.py": ""},
            "import a",
            f"m.py line 1 imports 'a', {WHICH}/../a.py and {{folder}}/a.py; rename one of them",
        ),
        (
            {"a.py": f"x = '{'y' * (1 << 20)}'"},
            "import a",
            "it imports 1 modules of its folder, 1.0 MB; at most 1.0 MB travel",
        ),
        (
            {"words.txt": "a"},
            "open(__file__[:-4] + 'words.txt')",
            "of its folder only the modules that it imports travel",
        ),
        (
            {"a.py": "def f(x):\n return x['b']"},
            "import a\ndef preprocessing_fn(x):\n a.f(x)",
            "m.py: a.py line 2: feature 'b' is not there",
        ),
    ],
)
def test_what_is_wrong_beside_it_is_said_with_file_and_line(
    tmp_path: Path, files: dict[str, str], first: str, sentence: str
) -> None:
    folder = tmp_path / "models"
    write(folder, {**files, "m.py": first if "preprocessing_fn" in first else f"{first}\n{RUN}"})

    with pytest.raises(UserError) as caught:
        PreprocessingModule.read(str(folder / "m.py"), OPTION)({})

    said = str(caught.value).replace(f"{tmp_path}/a.py", "{folder}/../a.py").replace(str(folder), "{folder}")
    assert said.startswith("--module_file m.py")
    assert sentence in said
