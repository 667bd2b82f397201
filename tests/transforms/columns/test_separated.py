"""Texts that hold several values."""

import pyarrow as pa

from shardmill.transforms.columns.arrow import split_text, split_texts


def test_parts_are_stripped_and_none_is_empty() -> None:
    assert split_text(" red; green;;\t; red", ";") == ["red", "green", "red"]
    assert split_text("a, b and c", " and ") == ["a, b", "c"]
    assert split_text("", ";") == split_text(" ; ", ";") == []


def test_texts_are_split_where_they_stand() -> None:
    texts = pa.array([b"b;a", None, b"", b"b;a", b"\xff;\xc3\xa4"], pa.large_binary()).slice(1)

    lists = split_texts(texts, ";")

    assert lists.to_pylist() == [[], [], [b"b", b"a"], [b"\xff", "ä".encode()]]
    assert lists.type == pa.large_list(pa.large_binary())
    assert split_texts(texts[:0], ";").to_pylist() == []
