"""shardmill.transforms.tokens: the tokens that the library makes, and tokenizer files that are none."""

import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from tokenizers import Tokenizer

from shardmill.addons.tokens.encoding import encode
from shardmill.addons.tokens.options import TokenizerFile
from shardmill.errors import UserError
from tests.support.tokenizer_files import END, texts, tokenizer_json

AROUND = tokenizer_json(("[CLS]", "[SEP]"), ("[CLS]", "[SEP]"))


@pytest.mark.parametrize("special", [True, False])
@pytest.mark.parametrize("most", [None, 5, 1000])
def test_tokens_are_those_of_the_library(special: bool, most: int | None) -> None:
    file = TokenizerFile.from_bytes("t.json", AROUND)
    alone = Tokenizer.from_str(AROUND.decode())
    if most is not None:
        alone.enable_truncation(most)
    documents = [*texts(30), ""]
    found = encode(file, pa.array(documents, pa.large_string()), special, most)

    assert found.ids.to_pylist() == [alone.encode(text, add_special_tokens=special).ids for text in documents]
    whole = [len(Tokenizer.from_str(AROUND.decode()).encode(text, add_special_tokens=special)) for text in documents]
    assert found.cut_tokens.tolist() == [max(0, size - (most or size)) for size in whole]
    assert found.max_ids.tolist() == [max(ids, default=-1) for ids in found.ids.to_pylist()]


def test_its_text_travels_and_not_its_path(tmp_path: Path) -> None:
    file = pickle.loads(pickle.dumps(TokenizerFile.from_bytes("t.json", tokenizer_json())))

    assert encode(file, pa.array(["w3 w4"], pa.large_string()), add_special_tokens=False).ids.to_pylist() == [[4, 5]]
    assert file.special_tokens() == [END]
    assert (file.id_of(END), file.id_of("no")) == (201, None)
    assert file.vocabulary_size == 202


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\xff\xfe", "is no text in UTF-8"),
        (b"", "is no tokenizer.json"),
        (b"{}", "is no tokenizer.json"),
        (b'{"vocab": ["a"]}', "is no tokenizer.json"),
    ],
)
def test_a_file_that_is_none(data: bytes, words: str) -> None:
    with pytest.raises(UserError, match=rf"--tokenizer t\.json {words}"):
        TokenizerFile.from_bytes("t.json", data)
