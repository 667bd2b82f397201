"""shardmill.transforms.values.tokens_encoding: a word is tokenized once in a process, and what is kept is bounded."""

import pyarrow as pa
import pytest

from shardmill.transforms.values import tokens_encoding
from shardmill.transforms.values.tokens_encoding import cached_tokens


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens_encoding, "_known", {})


class Asked:
    """Tokens of a word: its letters; and the words that were asked for."""

    def __init__(self, plus: int = 0) -> None:
        self.words: list[list[str]] = []
        self._plus = plus

    def __call__(self, words: pa.LargeStringArray) -> pa.LargeListArray:
        self.words.append(words.to_pylist())
        return pa.array([[ord(c) + self._plus for c in word] for word in words.to_pylist()], pa.large_list(pa.int64()))


def _tokens(words: list[str], asked: Asked, key: str = "t") -> list[list[int]]:
    return cached_tokens(pa.array(words, pa.large_string()), key, asked).to_pylist()


def _expected(words: list[str], plus: int = 0) -> list[list[int]]:
    return [[ord(c) + plus for c in word] for word in words]


def test_what_was_met_is_not_asked_for_again() -> None:
    asked = Asked()
    for words in (["a", "", "ab"], ["ab", "c", "a", "dé"], ["dé", ""], []):
        assert _tokens(words, asked) == _expected(words)
    assert asked.words == [["a", "", "ab"], ["c", "dé"], [], []]


def test_another_tokenizer_has_its_own() -> None:
    one, other = Asked(), Asked(7)
    assert _tokens(["a", "b"], one) == _expected(["a", "b"])
    assert _tokens(["b", "a"], other, "u") == _expected(["b", "a"], 7)
    assert _tokens(["b", "a"], one) == _expected(["b", "a"])


def test_slices_are_words_too() -> None:
    asked = Asked()
    words = pa.array(["x", "a", "b", "y"], pa.large_string())
    assert cached_tokens(words[1:3], "t", asked).to_pylist() == _expected(["a", "b"])
    assert cached_tokens(words[2:], "t", asked).to_pylist() == _expected(["b", "y"])
    assert asked.words == [["a", "b"], ["y"]]


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The words of the last batch stay; those of a batch that is too large do not."""
    monkeypatch.setattr(tokens_encoding, "MOST_BYTES", 2000)
    asked = Asked()
    many = [f"{n:05}" for n in range(30)]
    for words in (many[:20], many[10:25], many[10:25], [f"{n:06}" for n in range(100)], many[10:25]):
        assert _tokens(words, asked) == _expected(words)
        known = tokens_encoding._known["t"]
        assert known.size_bytes <= 2000
    assert asked.words[1:3] == [many[20:25], []]
    assert asked.words[4] == []
