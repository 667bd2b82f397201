"""Tokens of words and of texts, words that are tokenized once, and blocks with the documents that they cut."""

import json
from collections.abc import Callable
from functools import cache
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from shardmill.addons.tokens import encoding
from shardmill.addons.tokens.encoding import cached_tokens, cut_words, encode, has_separate_words
from shardmill.addons.tokens.options import TokenizerFile
from shardmill.addons.tokens.packing import divide_tokens, document_records, token_counts, token_ids, total_tokens
from shardmill.transforms.columns.example_bytes import frame
from shardmill.transforms.records.run_file import framed_sizes

END = "<|endoftext|>"
_LLAMA_3, _QWEN_2 = encoding._EXPRESSIONS
# Words, white space of all kinds, what composes, what is added, what an expression treats apart
PARTS = (
    *("a", "the", "The", "don't", "'s", "'S", "12", "1234", "x9", "_", "...", "?!", "«", "“q”", "\U0001f600", END),
    *("é", "e\u0301", "\u0301", "я", "р", "Привет", "日本", "。", "한", "\u1100\u1161", "ß", "\u212b", "½", "٣"),
    *(" ", " ", " ", " ", "  ", "\t", "\n", "\r\n", "\x0b", "\x1c", "\x1f", "\x7f", "\x00", "\x85", "\xa0"),
    *("\u1680", "\u180e", "\u2003", "\u200b", "\u2028", "\u202f", "\u205f", "\u3000", "\ufeff", "<pad>"),
)
TEXTS = st.lists(st.one_of(st.sampled_from(PARTS), st.text(max_size=4)), max_size=12).map("".join)


def _split(expression: str) -> Any:
    split = pre_tokenizers.Split(Regex(expression), "isolated")
    return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


SPLITS: dict[str, Callable[[], Any]] = {
    "gpt-2": lambda: pre_tokenizers.ByteLevel(add_prefix_space=False),
    "llama-3": lambda: _split(_LLAMA_3),
    "qwen-2": lambda: _split(_QWEN_2),
}


def _train(splits: Any, normalizer: Any = None, dropout: float | None = None, **added: bool) -> str:
    tokenizer = Tokenizer(models.BPE(dropout=dropout))
    tokenizer.pre_tokenizer = splits
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=[END], initial_alphabet=alphabet, show_progress=False, min_frequency=1
    )
    tokenizer.train_from_iterator(["the cat don't  go 1234 times. Привет 日本 a\n\n b's é"] * 3, trainer)
    tokenizer.add_tokens([AddedToken("<pad>", **added)])
    return tokenizer.to_str()


@cache
def _tokenizer(name: str, composes: bool) -> TokenizerFile:
    text = _train(SPLITS[name](), normalizers.NFC() if composes else None)
    assert has_separate_words(text)
    return TokenizerFile(name, text)


@pytest.mark.parametrize("composes", [False, True])
@pytest.mark.parametrize("name", SPLITS)
@given(TEXTS)
@example("the cat  sat\u00a0on \u3000 the mat <pad> e \u0301x я р <|endoftext|> . 's\u2003 \n")
def test_the_tokens_of_words_are_those_of_texts(name: str, composes: bool, text: str) -> None:
    file = _tokenizer(name, composes)
    texts = pa.array(["", text, "", text + " " + text, text, text, ""], pa.large_string())
    alone = file.load()
    expected = [alone.encode(each, add_special_tokens=False).ids for each in texts.to_pylist()]

    assert encode(file, texts, add_special_tokens=False).ids.to_pylist() == expected
    assert encode(file, texts, add_special_tokens=False, max_tokens=3).ids.to_pylist() == [ids[:3] for ids in expected]
    apart = pa.array([word for each in texts.to_pylist() for word in _words(each)], pa.large_string())
    pieces = encode(file, apart, add_special_tokens=False).ids.to_pylist()
    assert list(chain.from_iterable(pieces)) == list(chain.from_iterable(expected))


def _words(text: str) -> list[str]:
    """Cut as `cut` does, however many are different."""
    data = text.encode()
    starts = [0, *encoding._cuts(np.frombuffer(data, np.uint8)).tolist(), len(data)]
    return [data[start:end].decode() for start, end in pairwise(starts)]


def test_a_word_is_cut_out_at_spaces_that_stand_alone() -> None:
    assert _words("the cat  sat я р.\n b c ") == ["the", " cat  sat", " я", " р.\n b", " c "]
    assert [_words(f"a{space}b c") for space in "\u00a0\u3000\u2003\x1f"] == [
        [f"a{space}b", " c"] for space in "\u00a0\u3000\u2003\x1f"
    ]
    assert _words("a\u00a0 b \u3000c") == ["a\u00a0 b \u3000c"]


def test_each_word_is_there_once() -> None:
    texts = pa.array(["-", "", "a b a b", "a", "", "b a a a b"], pa.large_string())[1:]
    found = cut_words(texts)

    assert found is not None
    assert sorted(found.distinct.to_pylist()) == [" a", " b", "a", "b"]
    lists = found.distinct.take(found.codes).to_pylist()
    assert ["".join(lists[first:end]) for first, end in pairwise(found.text_starts)] == (texts.to_pylist())
    assert found.text_starts.dtype == np.int64


def test_no_texts_have_no_tokens() -> None:
    file = _tokenizer("gpt-2", composes=False)
    found = encode(file, pa.array([], pa.large_string()), add_special_tokens=False)
    assert (found.ids.to_pylist(), found.cut_tokens.tolist(), found.max_ids.tolist()) == ([], [], [])


@pytest.mark.parametrize("texts", [["a b c d"], ["日本語日本語", "他の言葉"]])
def test_where_words_are_seldom_seen_again_texts_stay_whole(texts: list[str]) -> None:
    assert cut_words(pa.array(texts, pa.large_string())) is None


REACH: dict[str, Callable[[], str]] = {
    "dropout": lambda: _train(SPLITS["gpt-2"](), dropout=0.1),
    "another normalizer": lambda: _train(SPLITS["gpt-2"](), normalizers.NFKC()),
    "a token that takes the space behind it": lambda: _train(SPLITS["gpt-2"](), rstrip=True),
    "a space before each text": lambda: _train(pre_tokenizers.ByteLevel(add_prefix_space=True)),
    "no words": lambda: _train(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)),
    "another expression": lambda: _train(_split(r"\s+\S+\s+")),
    "split at the end of each match": lambda: _train(
        pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(_LLAMA_3), "merged_with_next"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
    ),
    "SentencePiece's": lambda: _train(pre_tokenizers.Metaspace(split=False)),
}


@pytest.mark.parametrize("why", REACH)
def test_tokenizers_whose_tokens_may_reach_further_get_whole_texts(why: str) -> None:
    assert not has_separate_words(REACH[why]())


def test_an_added_token_of_two_words_keeps_texts_whole() -> None:
    content = json.loads(_train(SPLITS["gpt-2"]()))
    content["added_tokens"][0]["content"] = "  indented"
    assert has_separate_words(json.dumps(content))
    content["added_tokens"][0]["content"] = "end of text"
    assert not has_separate_words(json.dumps(content))


# Words that are known


@pytest.fixture
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "_known", {})


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


@pytest.mark.usefixtures("_nothing_known")
def test_what_was_met_is_not_asked_for_again() -> None:
    asked = Asked()
    for words in (["a", "", "ab"], ["ab", "c", "a", "dé"], ["dé", ""], []):
        assert _tokens(words, asked) == _expected(words)
    assert asked.words == [["a", "", "ab"], ["c", "dé"], [], []]


@pytest.mark.usefixtures("_nothing_known")
def test_another_tokenizer_has_its_own() -> None:
    one, other = Asked(), Asked(7)
    assert _tokens(["a", "b"], one) == _expected(["a", "b"])
    assert _tokens(["b", "a"], other, "u") == _expected(["b", "a"], 7)
    assert _tokens(["b", "a"], one) == _expected(["b", "a"])


@pytest.mark.usefixtures("_nothing_known")
def test_slices_are_words_too() -> None:
    asked = Asked()
    words = pa.array(["x", "a", "b", "y"], pa.large_string())
    assert cached_tokens(words[1:3], "t", asked).to_pylist() == _expected(["a", "b"])
    assert cached_tokens(words[2:], "t", asked).to_pylist() == _expected(["b", "y"])
    assert asked.words == [["a", "b"], ["y"]]


@pytest.mark.usefixtures("_nothing_known")
def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The words of the last batch stay; those of a batch that is too large do not."""
    monkeypatch.setattr(encoding, "MOST_BYTES", 2000)
    asked = Asked()
    many = [f"{n:05}" for n in range(30)]
    for words in (many[:20], many[10:25], many[10:25], [f"{n:06}" for n in range(100)], many[10:25]):
        assert _tokens(words, asked) == _expected(words)
        known = encoding._known["t"]
        assert known.size_bytes <= 2000
    assert asked.words[1:3] == [many[20:25], []]
    assert asked.words[4] == []


# Blocks

LISTS = [[5, 70_000], [1], [2, 3, 4]]


@pytest.mark.parametrize(("end", "behind"), [(None, []), (9, [9])])
def test_a_record_is_the_tokens_of_a_document_and_its_size_says_how_many(end: int | None, behind: list[int]) -> None:
    ids = pa.array([[0], *LISTS], pa.large_list(pa.int64()))[1:]
    records = document_records(ids, end)

    found = [token_ids(np.frombuffer(record, np.uint8)).tolist() for record in records.to_pylist()]
    assert found == [[*tokens, *behind] for tokens in LISTS]
    sizes = framed_sizes(frame(records))
    assert token_counts(sizes).tolist() == [len(tokens) for tokens in found]
    assert total_tokens(len(found), int(sizes.sum())) == sum(map(len, found))


@given(st.lists(st.integers(1, 30), min_size=1, max_size=40), st.integers(1, 12), st.integers(1, 8))
def test_shares_are_the_blocks_of_one_stream(sizes: list[int], block: int, shards: int) -> None:
    tokens = np.array(sizes)
    blocks = sum(sizes) // block
    if shards > blocks:
        return
    firsts, each = divide_tokens(tokens, block, shards)

    assert sum(share.examples for share in each) == blocks
    assert max(share.examples for share in each) - min(share.examples for share in each) <= 1
    starts = np.concatenate(([0], np.cumsum(tokens)))
    position = 0
    for first, share in zip([0, *firsts], each, strict=True):
        assert starts[first] + share.skip == position
        assert share.skip < tokens[first]
        position += share.examples * block
