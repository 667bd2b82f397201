"""Functions of --map and --map_batches: which are accepted, what they may return, and how they reach workers."""

import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pyarrow as pa
import pytest

from shardmill.addons.mapping.function import (
    MAP,
    MAP_BATCHES,
    FunctionError,
    UserFunction,
    is_same,
    is_sampled,
    record_seed,
)
from shardmill.errors import UserError
from shardmill.flag_values import OptionValueError

TEXT = """
import numpy as np
from helper import double

class Cleaner:
    def __call__(self, row):
        return row

cleaner = Cleaner()
two = 2

def same(row):
    return row

def doubled(row):
    return {**row, "n": double(row["n"])}

def drawn(row, rng):
    return {"n": int(rng.integers(1 << 30))}

def late(row):
    import helper
    import not_a_package
    return row

def late_beside(row):
    import helper
    return {"n": helper.double(row["n"])}

def failing(row):
    raise ValueError("bad  text\\nof two lines")

def missing(row):
    return {"n": row["nn"]}

def leaving(row):
    raise SystemExit(3)

def generated(row):
    for n in range(3):
        row["n"] = n
        yield row

def halfway(row):
    yield row
    raise ValueError("halfway")

def text(row):
    return "abc"

def texts(row):
    return ["abc"]

def keys(row):
    return {1: 2}

def nothing(row):
    return None

def printing(row):
    print("printed", row["n"])
    return row

def two_arguments(row, other):
    return row

def keyword(*, row):
    return row

def batch_drawn(batch, rng):
    return batch
"""


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("module")
    (folder / "helper.py").write_text("def double(n): return 2 * n\n")
    (folder / "clean.py").write_text(TEXT)
    return folder / "clean.py"


def call(function: UserFunction, value: Any, seed: int = 0) -> list[Any]:
    with function.calling() as found:
        return found(value, seed)


def named(module: Path, name: str, option: str = MAP) -> UserFunction:
    return UserFunction.parse(option, f"{module}:{name}")


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("same", [{"n": 7}]),
        ("cleaner", [{"n": 7}]),
        ("doubled", [{"n": 14}]),
        ("late_beside", [{"n": 14}]),
        ("nothing", []),
        ("generated", [{"n": 0}, {"n": 1}, {"n": 2}]),
    ],
)
def test_what_a_function_returns_becomes_rows(module: Path, name: str, rows: list[Any]) -> None:
    assert call(named(module, name), {"n": 7}) == rows


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("failing", "clean.py line 31: failing raises ValueError: bad text of two lines"),
        ("missing", "clean.py line 34: missing: 'nn' is not there; did you mean n?"),
        ("leaving", "clean.py line 37: leaving raises SystemExit: 3"),
        ("halfway", "clean.py line 46: halfway raises ValueError: halfway"),
        ("text", "text returns a str, 'abc'; expected a dictionary, None or a list of dictionaries"),
        ("texts", "texts returns a list with a str, 'abc'; expected dictionaries"),
    ],
)
def test_a_record_that_fails_has_a_reason(module: Path, name: str, reason: str) -> None:
    with pytest.raises(FunctionError) as caught:
        call(named(module, name), {"n": 7})
    assert str(caught.value) == reason


@pytest.mark.parametrize(
    ("option", "name", "sentence"),
    [
        (MAP, "sam", "--map clean.py has no function 'sam'; did you mean same?"),
        (MAP, "two", "--map clean.py has no function 'two'; "),
        (MAP, "two_arguments", "parameters (row, other); expected two_arguments(row) or two_arguments(row, rng)"),
        (MAP, "keyword", "--map clean.py:keyword has the parameters (*, row); expected keyword(row)"),
        (MAP_BATCHES, "batch_drawn", "has a parameter rng: random numbers of a batch would depend on"),
    ],
)
def test_a_mistake_is_one_sentence(module: Path, option: str, name: str, sentence: str) -> None:
    with pytest.raises(UserError) as caught:
        named(module, name, option).check()
    assert sentence in str(caught.value)


@pytest.mark.parametrize("value", ["clean.py", "clean:same", "clean.py:", ":same", 3])
def test_other_values_are_refused(value: Any) -> None:
    with pytest.raises(OptionValueError, match=r"is not FILE.py:FUNCTION, such as clean.py:clean_row"):
        UserFunction.parse(MAP, value)


def test_a_package_that_is_missing_is_one_sentence(module: Path) -> None:
    with pytest.raises(UserError, match=r"^--map clean.py:late does not import: No module named 'not_a_package'"):
        call(named(module, "late"), {})


def test_random_numbers_depend_on_the_record_and_the_seed(module: Path) -> None:
    drawn = named(module, "drawn")
    seeds = [record_seed(*place) for place in (("a", 1, 0), ("a", 2, 0), ("b", 1, 0), ("a", 1, 1))]
    numbers = [call(drawn, {}, seed)[0]["n"] for seed in seeds]
    assert len(set(numbers)) == 4
    assert numbers == [call(drawn, {}, seed)[0]["n"] for seed in seeds]


def test_what_is_printed_goes_to_stderr(module: Path, capsys: pytest.CaptureFixture[str]) -> None:
    function = named(module, "printing")
    with function.calling() as outer, function.calling() as inner:
        outer({"n": 1})
        inner({"n": 2})
    print("after")
    assert capsys.readouterr() == ("after\n", "printed 1\nprinted 2\n")


def _top_level(row: dict[str, Any]) -> dict[str, Any]:
    return {"n": row["n"] + 1}


def make_closure(step: int) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda row: {"n": row["n"] + step}


class Adder:
    """A callable with a value."""

    def __init__(self, step: int) -> None:
        self.step = step

    def __call__(self, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield {"n": row["n"] + self.step}


@pytest.mark.parametrize(
    ("function", "name", "digits"),
    [(make_closure(1), "make_closure.<locals>.<lambda>", 64), (Adder(1), "Adder", 64), (_top_level, "_top_level", 64)],
)
def test_a_callable_is_called_and_has_a_digest(function: Any, name: str, digits: int) -> None:
    found = UserFunction.parse(MAP, function)
    found.check()
    assert call(found, {"n": 1}) == [{"n": 2}]
    assert found.to_json()["function"] == name
    assert len(found.to_json()["sha256"]) == digits
    assert UserFunction.parse(MAP, found) is found


def test_a_function_of_an_imported_module_is_sent_as_its_source() -> None:
    found = UserFunction.parse(MAP, _top_level)
    assert found.module is not None
    assert (found.module.name, found.pickled) == ("test_function.py", b"")


def test_a_callable_that_cannot_be_sent_is_refused() -> None:
    numbers = (number for number in range(3))
    with pytest.raises(OptionValueError, match=r"cannot be sent to workers: TypeError: cannot pickle 'generator'"):
        UserFunction.parse(MAP, lambda row: {"n": next(numbers)})


def test_a_function_reaches_a_process_without_its_module(module: Path, tmp_path: Path) -> None:
    functions = [named(module, "doubled"), UserFunction.parse(MAP, make_closure(7))]
    program = textwrap.dedent("""
        import pickle, sys
        for function in pickle.load(open(sys.argv[1], "rb")):
            with function.calling() as call:
                print(call({"n": 7})[0]["n"], file=sys.__stdout__)
    """)
    cloudpickle.dump(functions, open(tmp_path / "functions", "wb"))  # noqa: SIM115
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "functions")],
        cwd="/",
        text=True,
        capture_output=True,
        check=True,
    )
    assert done.stdout == "14\n14\n"


def test_batches_are_checked() -> None:
    batch = pa.RecordBatch.from_pylist([{"n": 1}])

    def run(found: Any) -> list[Any]:
        return call(UserFunction.parse(MAP_BATCHES, lambda _: found), batch)

    assert run(batch) == run([batch]) == run(pa.Table.from_batches([batch])) == [batch]
    assert run(None) == []
    with pytest.raises(FunctionError, match=r"returns a dict, .*; expected a pyarrow.RecordBatch, a Table, None"):
        run({"n": 1})
    with pytest.raises(FunctionError, match="two columns of one name"):
        run(pa.RecordBatch.from_arrays([batch["n"], batch["n"]], ["n", "n"]))


def test_results_are_compared() -> None:
    same = [{"a": [1, float("nan")], "b": np.arange(3), "c": None}]
    assert is_same(same, [{"a": [1, float("nan")], "b": np.arange(3), "c": None}])
    for other in ({"a": [1, 2.0]}, {"a": [1, float("nan")], "b": np.arange(4)}, {"a": [1, float("nan")], "c": None}):
        assert not is_same(same, [{**same[0], **other} if len(other) < 2 else other])
    assert not is_same({"n": 1}, {"n": True})


def test_a_sample_is_run_twice() -> None:
    large = [is_sampled(record_seed("a", line, 0), 1 << 20) for line in range(1, 1001)]
    assert 5 < sum(large) < 30
    assert is_sampled(record_seed("a", 1, 0), 100)
