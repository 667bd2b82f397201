"""A module is its text: it is run where it is needed, and what it defines is pickled with its definition."""

import pickle
import subprocess
import sys

import pytest
from apache_beam.internal import pickler

from shardmill.errors import UserError
from shardmill.transforms.values.preprocessing_sources import PreprocessingModule

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
    return PreprocessingModule.from_bytes("preprocessing.py", text.encode())


def test_it_does_what_its_function_does() -> None:
    assert made()({"a": 2}) == {"a": 5.0}


def test_a_pickle_of_it_holds_the_text_and_runs_it_anew() -> None:
    module = made()
    module({"a": 1})
    data = pickle.dumps(module)

    assert b"class Scale" in data
    assert data == pickle.dumps(made())
    program = f"import pickle; print(pickle.loads({data!r})({{'a': 2}}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "{'a': 5.0}\n"


def test_what_it_defines_reaches_a_process_that_has_no_such_module() -> None:
    scale = made().function().__globals__["Scale"](3.0)
    data = pickler.dumps(scale)

    program = f"from apache_beam.internal import pickler; print(pickler.loads({data!r})(2))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "6.0\n"


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
        PreprocessingModule.from_bytes("m.py", data)

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
    ],
)
def test_what_its_function_does_wrong_is_said_with_the_line(body: str, sentence: str) -> None:
    module = made(f"def preprocessing_fn(inputs):\n {body}")

    with pytest.raises(UserError) as caught:
        module({"age": 1})

    assert f"--module_file preprocessing.py {sentence}" in str(caught.value)
