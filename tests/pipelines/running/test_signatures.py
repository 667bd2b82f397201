"""Beam is asked for each signature once while a job runs, and is left as it was."""

import inspect
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.transforms import core, userstate
from apache_beam.typehints import decorators

from shardmill.pipelines.jobs.launch import cache_signatures

KEPT = beam.DoFn.StateParam(userstate.ReadModifyWriteStateSpec("count", VarIntCoder()))


class Told:
    def one(self, first: int, second: str = "") -> None: ...


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What Beam's own function is asked about."""
    calls: list[Any] = []

    def ask(function: Any) -> inspect.Signature:
        calls.append(function)
        return inspect.signature(function)

    for module in (core, decorators):
        monkeypatch.setattr(module, "get_signature", ask)
    return calls


def test_a_method_is_asked_about_once(asked: list[Any]) -> None:
    before = core.get_signature
    with cache_signatures():
        found = [module.get_signature(Told().one) for module in (core, decorators) for _ in range(3)]
        with cache_signatures():  # of a job beside this one
            found.append(core.get_signature(Told().one))
        found.append(core.get_signature(Told().one))
    assert {str(one) for one in found} == {"(first: int, second: str = '') -> None"}
    assert len(asked) == 1
    assert core.get_signature is decorators.get_signature is before


def test_functions_are_asked_about_each_time(asked: list[Any]) -> None:
    """One may be made anew under a name that is known."""
    with cache_signatures():
        for function in (lambda first: first, lambda second: second, len, Told):
            core.get_signature(function)
    assert len(asked) == 4


class Keeping(beam.DoFn):
    def process(self, element: Any, kept: Any = KEPT) -> None: ...


class NoHash(Keeping):
    __hash__ = None  # type: ignore[assignment]


class Doing(beam.DoFn):
    """Of two of a class one may hold the method of another, which keeps something."""

    def __init__(self, held: Any = None) -> None:
        self.held = held

    def process(self, element: Any) -> None: ...


def test_what_a_dofn_keeps_is_asked_once_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    before = userstate.get_dofn_specs

    def ask(dofn: beam.DoFn) -> Any:
        calls.append(dofn)
        return before(dofn)

    monkeypatch.setattr(userstate, "get_dofn_specs", ask)
    functions = [Doing(), Doing(Keeping().process), NoHash()]
    with cache_signatures():
        found = [[userstate.is_stateful_dofn(function) for function in functions] for _ in range(3)]

    assert found == [[False, True, True]] * 3
    assert [calls.count(function) for function in functions] == [1, 1, 3]


def test_a_failure_leaves_beam_as_it_was(asked: list[Any]) -> None:
    before = core.get_signature
    with pytest.raises(KeyError), cache_signatures():
        raise KeyError
    assert core.get_signature is before
