"""Texts, and a tokenizer.json that is the same bytes each time, whatever release of tokenizers reads it."""

import json
from collections.abc import Mapping
from typing import Any

END = "<|endoftext|>"
WORDS = [f"w{number}" for number in range(200)]


def tokenizer_json(
    special: tuple[str, ...] = (END,),
    around: tuple[str, str] | None = None,
    vocabulary: Mapping[str, int] | None = None,
) -> bytes:
    """A tokenizer of WORDS, which it finds between spaces; all other words are `[UNK]`.

    Args:
      special: tokens behind the words that stand for no text.
      around: two of them that are put before and behind each text.
      vocabulary: ids by word, where they are not those from 0.
    """
    words = dict(vocabulary or {word: number for number, word in enumerate(["[UNK]", *WORDS])})
    added = [
        {"id": len(words) + place, "content": token, "special": True}
        | dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        for place, token in enumerate(special)
    ]
    ids = {token["content"]: token["id"] for token in added}
    processor: dict[str, Any] | None = None
    if around is not None:
        before, behind = around
        single = [
            {"SpecialToken": {"id": before, "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
            {"SpecialToken": {"id": behind, "type_id": 0}},
        ]
        tokens = {name: {"id": name, "ids": [ids[name]], "tokens": [name]} for name in around}
        processor = {"type": "TemplateProcessing", "single": single, "pair": single, "special_tokens": tokens}
    content = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": processor,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": words, "unk_token": "[UNK]"},
    }
    return json.dumps(content).encode()


def byte_level_json() -> bytes:
    """A tokenizer of bytes as GPT-2 has it, with three merges: what it makes of a word is the same in any text."""
    kept = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    # The other bytes are shown as the characters from 256; source: bytes_to_unicode of GPT-2's encoder.py
    symbols = [*map(chr, kept), *(chr(256 + place) for place in range(256 - len(kept)))]
    space = chr(256 + ord(" "))
    merges = [[space, "w"], ["1", "2"], [f"{space}w", "1"]]
    vocabulary = {symbol: number for number, symbol in enumerate([*symbols, *map("".join, merges), END])}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    end = {"id": vocabulary[END], "content": END, "special": True}
    content = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [end | dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": merges},
    }
    return json.dumps(content).encode()


def texts(number: int, longest: int = 40) -> list[str]:
    """So many texts of 1 to `longest` words, all different."""
    return [
        " ".join(WORDS[(n * 7 + k * k + n // 200) % 200] for k in range(1 + n * 13 % longest)) + f" {WORDS[n % 200]}"
        for n in range(number)
    ]


TEXTS = texts(300)


def around() -> bytes:
    """A tokenizer that puts a token before and behind each text."""
    return tokenizer_json(("[CLS]", "[SEP]"), ("[CLS]", "[SEP]"))


def ids_of(text: str, data: bytes = tokenizer_json()) -> list[int]:
    """By tokenizers alone."""
    from tokenizers import Tokenizer

    return list(Tokenizer.from_str(data.decode()).encode(text).ids)
