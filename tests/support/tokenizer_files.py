"""A tokenizer.json that is the same bytes each time, whatever release of tokenizers reads it: words of a fixed list."""

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


def texts(number: int, longest: int = 40) -> list[str]:
    """So many texts of 1 to `longest` words, all different."""
    return [
        " ".join(WORDS[(n * 7 + k * k + n // 200) % 200] for k in range(1 + n * 13 % longest)) + f" {WORDS[n % 200]}"
        for n in range(number)
    ]
