"""Documents between separators, and paragraphs: beside a reader of whole texts, in any encoding and block size."""

import bz2
import gzip
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.metadata.manifest import Reject
from shardmill.transforms.formats.documents import NO_SEPARATOR, DocumentsFormat
from shardmill.transforms.formats.format import FileRef, RecordNotice
from tests.support import format_files
from tests.support.format_files import file_ref
from tests.transforms.formats.test_lines import TYPES

END = "<|endoftext|>"
Found = tuple[list[tuple[int, str]], int]  # documents with their first lines, and empty ones


def read(format_: DocumentsFormat, file: FileRef) -> tuple[Found, list[Reject], list[RecordNotice]]:
    rows, lines, rejects, empty = format_files.read(format_, file, TYPES)
    notices = [item for item in format_.index(file) if isinstance(item, RecordNotice)]
    return ([(line, row["text"].decode()) for line, row in zip(lines, rows)], empty), rejects, notices


def expected(text: str, separator: str | None) -> Found:
    """Return the documents of a whole text by Python's own split; one for the separator None."""
    is_whole, separator = separator is None, separator or ""
    text = re.sub(f"(?m)(^{separator and '|'}{re.escape(separator)})\ufeff", r"\1", text)
    found, empty, position = [], 0, 0
    if is_whole:
        joined = [("", text)]
    elif separator:
        parts = text.split(separator)
        empty = sum(not part.strip() for part in parts[:-1])
        joined = [(text[: sum(len(each) + len(separator) for each in parts[:n])], part) for n, part in enumerate(parts)]
    else:
        joined = [
            (text[: match.start()], match[0])
            for match in re.finditer(r"(?:^[^\n]*\S[^\n]*(?:\n|\Z))+", text, re.MULTILINE)
        ]
    for before, part in joined:
        if not part.strip():
            continue
        start = len(part) - len(part.lstrip())
        start = part.rfind("\n", 0, start) + 1
        body = re.sub(r"\r?\n\s*\Z", "", part[start:])
        position = (before + part[:start]).count("\n") + 1
        found.append((position, body))
    return found, empty


PIECES = ["a", "b c", " ", "\n", "\r\n", "\n\n", "é", "—", END, "<|", "--", "-", END[:5], "\t", "\n\ufeff", "é\ufeff"]


@pytest.mark.parametrize("separator", [END, "--", "\n--\n", "é", "", None])
@given(parts=st.lists(st.sampled_from(PIECES), max_size=25), block=st.integers(1, 40))
@settings(max_examples=60)
def test_any_cut_reads_what_the_whole_is(
    tmp_path_factory: pytest.TempPathFactory, separator: str | None, parts: list[str], block: int
) -> None:
    text = "".join(parts)
    folder = tmp_path_factory.getbasetemp()
    want = expected(text, separator)
    form = DocumentsFormat(block, "utf-8", True, separator=separator or "", is_whole_file=separator is None)
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        file = file_ref(folder, text.encode(encoding))
        if separator is None and not file.size_bytes:
            assert [item.reason for item in form.index(file)] == ["the file is empty"]  # type: ignore[union-attr]
            continue
        got, rejects, _ = read(replace(form, encoding=encoding), file)
        assert (got, bool(rejects)) == (want, separator is None and not want[0])
    for name, compress in (("a.txt.gz", gzip.compress), ("a.txt.bz2", bz2.compress)):
        assert read(form, file_ref(folder, compress(text.encode()), name))[0] == want


@pytest.mark.parametrize("encoding", ["shift_jis", "gbk", "latin-1", "cp1252"])
def test_a_separator_is_no_half_of_a_character(tmp_path: Path, encoding: str) -> None:
    wide = {"shift_jis": "ポソ", "gbk": "亅亇"}.get(encoding, "éß")  # whose second bytes are | and other ASCII
    text = f"{wide}|a\n{wide}|\n|{wide}b"
    for block in range(1, 12):
        got, rejects, _ = read(
            DocumentsFormat(block, encoding, separator="|"), file_ref(tmp_path, text.encode(encoding))
        )
        assert (got, rejects) == (expected(text, "|"), [])


def test_damage_costs_the_documents_that_it_is_in(tmp_path: Path) -> None:
    data = f"one\n{END}\ntwo\nb\xff\n{END}three".encode("latin-1")
    (texts, _), rejects, _ = read(DocumentsFormat(1 << 20, separator=END), file_ref(tmp_path, data))
    assert texts == [(1, "one"), (5, "three")]
    assert [(reject.line, reject.reason) for reject in rejects] == [(3, "not utf-8: line 4")]


def test_a_file_without_the_separator_is_said(tmp_path: Path) -> None:
    (texts, _), _, notices = read(DocumentsFormat(2, separator=END), file_ref(tmp_path, b"a\nb\n"))
    assert texts == [(1, "a\nb")]
    assert notices == [RecordNotice(NO_SEPARATOR, "file.txt", 1)]
