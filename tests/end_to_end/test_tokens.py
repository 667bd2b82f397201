"""`--tokenizer`: texts of any route as token ids, one text an example or packed into blocks."""

import json
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from shardmill.transforms.records.shard_sources import PackedShards
from tests.support.command import Run, check_mistake, image, tree_bytes, write_files
from tests.support.table_results import Table, convert, write_rows
from tests.support.tokenizer_files import (
    END,
    TEXTS,
    WORDS,
    around,
    byte_level_json,
    ids_of,
    tokenized,
    tokenizer_json,
    write_texts,
)

BLOCK = 32
PACKED = ("--pack_to", BLOCK)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_texts(tmp_path)


def _stream(rows: Iterable[dict[str, list[int]]]) -> list[int]:
    return [token for row in rows for token in row["input_ids"]]


def _tokens(table: Table) -> dict[str, int]:
    splits = json.loads((table.directory / "stats.json").read_text())["splits"]
    return {name: split["tokens"] for name, split in splits.items()}


def test_each_line_is_the_ids_that_tokenizers_makes_of_it(source: Path, tmp_path: Path, run: Run) -> None:
    table = tokenized(source, tmp_path / "a", "--splits", "train=0.8,test=0.2")

    assert table.features == {"input_ids": "int64[]"}
    assert sorted(table.column("input_ids")) == sorted(map(ids_of, TEXTS))
    assert _tokens(table) == {split: len(_stream(rows)) for split, rows in table.splits.items()}
    shown = json.loads(run("inspect", table.directory, "--json").out)
    assert {split["name"]: split["tokens"] for split in shown["splits"]} == _tokens(table)
    page = json.loads(run("report", table.directory, "--json").out)
    assert {split["name"]: split["tokens"] for split in page["splits"]} == _tokens(table)
    assert f"Tokens: {_tokens(table)['train']:,} in train" in run("inspect", table.directory).out
    assert run("report", table.directory, "--output", tmp_path / "page.html").status == 0
    assert f"{_tokens(table)['train']:,}" in (tmp_path / "page.html").read_text()
    assert run("verify", table.directory).status == 0


def test_the_text_stays_if_asked_for_and_long_ones_are_cut(source: Path, tmp_path: Path) -> None:
    flags = ("--keep_text", "--max_length", 10, "--tokenizer", tmp_path / "cls.json")
    table = convert("text", source, tmp_path / "a", *flags)
    whole = {text.encode(): ids_of(text, around()) for text in TEXTS}

    assert table.features == {"text": "bytes", "input_ids": "int64[]"}
    for row in table.rows:
        ids = whole[row["text"]]
        assert row["input_ids"] == (ids if len(ids) <= 10 else [*ids[:9], ids[-1]])  # [SEP] stays
    long = [len(ids) - 10 for ids in whole.values() if len(ids) > 10]
    assert list(table.dataset.manifest.notices) == [
        f"{len(long)} of 300 texts had more than --max_length 10 tokens and were cut: {sum(long):,} tokens were lost"
    ]


def test_packed_blocks_are_all_texts_one_after_the_other(source: Path, tmp_path: Path) -> None:
    streams = []
    end = ids_of(END)[0]
    for shards in (1, 3, 7):
        table = tokenized(source, tmp_path / f"{shards}", *PACKED, "--num_shards", shards)
        assert table.features == {"input_ids": f"int64[{BLOCK}]"}
        assert {len(row["input_ids"]) for row in table.rows} == {BLOCK}
        (sizes,) = table.sizes.values()
        assert len(sizes) == shards
        assert max(sizes) - min(sizes) <= 1
        streams.append(_stream(table.rows))
    assert streams[0] == streams[1] == streams[2]
    *documents, rest = _split(streams[0], end)
    expected = sorted(map(ids_of, TEXTS))
    found = sorted(documents)
    total = sum(map(len, expected)) + len(expected)
    left = total - len(streams[0])
    assert 0 <= left < BLOCK
    missing = list(expected)
    for document in found:
        missing.remove(document)
    assert sum(len(document) + 1 for document in missing) == left + len(rest)
    assert any(document[: len(rest)] == rest for document in missing)
    (notice,) = table.dataset.manifest.notices
    assert notice == (
        f"split 'train': 300 texts, each with '{END}' behind it, are {total:,} tokens: {len(streams[0]) // BLOCK}"
        f" blocks of {BLOCK}; the last {left} tokens fill none and were dropped"
    )
    assert table.dataset.manifest.input["records"] == table.dataset.manifest.input["in_examples"] == 300
    assert _tokens(table) == {"train": len(streams[0])}
    assert table.stats()["input_ids"]["max"] == max(streams[0])


def _split(stream: list[int], end: int) -> list[list[int]]:
    found: list[list[int]] = [[]]
    for token in stream:
        if token == end:
            found.append([])
        else:
            found[-1].append(token)
    return found


def test_a_text_of_many_blocks_goes_on_in_the_next_shards(tmp_path: Path) -> None:
    long = " ".join(WORDS * 20)
    write_files(tmp_path, {"tokenizer.json": tokenizer_json()})
    source = write_files(tmp_path / "in", {"a.txt": "\n".join([*TEXTS[:5], long, *TEXTS[5:9]]).encode()})
    table = tokenized(source, tmp_path / "a", *PACKED, "--num_shards", 20)
    one = tokenized(source, tmp_path / "b", *PACKED)

    assert len(table.sizes["train"]) == 20
    assert _stream(table.rows) == _stream(one.rows)
    assert f",{str(ids_of(long))[1:-1]},".replace(" ", "") in f",{str(_stream(one.rows))[1:-1]},".replace(" ", "")


@pytest.mark.parametrize("flags", [PACKED, ("--balance", "tokens", "--max_length", 12)])
def test_neither_threads_nor_blocks_nor_workers_show(
    flags: tuple[object, ...], source: Path, tmp_path: Path, run: Run
) -> None:
    flags = (*flags, "--num_shards", 3, "--splits", "train=0.7,test=0.3")
    first = tree_bytes(tokenized(source, tmp_path / "a", *flags).directory)
    more = (("--threads", 1), ("--threads", 4, "--block_size", "1KiB"))
    for place, others in enumerate((*more, ("--direct_running_mode", "multi_processing", "--direct_num_workers", 2))):
        again = ("--tokenizer", tmp_path / "tokenizer.json", *flags, *others)
        assert run("text", "--input", source, "--output", tmp_path / f"b{place}", "--name", "n", *again).status == 0
        assert tree_bytes(tmp_path / f"b{place}/n/1.0.0") == first


def test_many_segments_are_one_stream(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = tree_bytes(tokenized(source, tmp_path / "a", *PACKED).directory)
    monkeypatch.setattr("shardmill.pipelines.jobs.record_graphs.PackedShards", partial(PackedShards, segment_bytes=1))

    assert tree_bytes(tokenized(source, tmp_path / "b", *PACKED).directory) == whole


def test_shards_are_balanced_in_tokens(source: Path, tmp_path: Path) -> None:
    flags = ("--num_shards", 4)
    sums = {}
    for balance in ("examples", "tokens"):
        table = tokenized(source, tmp_path / balance, *flags, "--balance", balance)
        rows = iter(table.rows)
        sums[balance] = [sum(len(next(rows)["input_ids"]) for _ in range(size)) for size in table.sizes["train"]]
    assert max(sums["tokens"]) - min(sums["tokens"]) <= max(map(len, map(ids_of, TEXTS)))
    assert sum(sums["tokens"]) == sum(sums["examples"])
    assert sums["tokens"] != sums["examples"]


def test_shard_size_is_in_bytes_whatever_is_balanced(source: Path, tmp_path: Path) -> None:
    made = tokenized(source, tmp_path / "a", "--balance", "tokens", "--shard_size", "4KiB")
    sizes = [shard.size_bytes for shard in made.dataset.manifest.splits[0].shards]

    assert len(sizes) > 2
    assert all(2048 < size <= 6144 for size in sizes)
    packed = tokenized(source, tmp_path / "b", *PACKED, "--shard_size", "4KiB").dataset.manifest.splits[0].shards
    assert len(packed) > 2
    assert all(1024 < shard.size_bytes <= 4096 for shard in packed)


@pytest.mark.parametrize("command", ["csv", "jsonl", "parquet"])
def test_a_column_of_a_table(command: str, tmp_path: Path) -> None:
    write_files(tmp_path, {"tokenizer.json": tokenizer_json()})
    rows = [{"id": n, "body": text} for n, text in enumerate(TEXTS[:60])]
    rows += [{"id": 60, "body": None}, {"id": 61, "body": " "}]
    write_rows(tmp_path / "in", command, rows)
    flags = ("--tokenize", "body", "--max_reject_fraction", 0.1)
    table = tokenized(tmp_path / "in", tmp_path / "a", *flags, command=command)

    assert table.features == {"id": "int64", "input_ids": "int64[]"}
    assert {row["id"]: row["input_ids"] for row in table.rows} == {n: ids_of(text) for n, text in enumerate(TEXTS[:60])}
    assert sorted(reject["reason"] for reject in table.rejects()) == [
        "an empty text: tokenizer.json makes no token of it",
        "no text: column 'body' has no value",
    ]
    packed = tokenized(tmp_path / "in", tmp_path / "b", *flags, *PACKED, command=command)
    said = "left out 'id': a block has parts of several texts, and nothing but their tokens"
    assert said in packed.dataset.manifest.notices
    assert packed.dataset.manifest.input["in_examples"] == 60


def test_images_beside_texts_are_left_out_of_blocks_and_stay_beside_tokens(tmp_path: Path) -> None:
    write_files(tmp_path, {"tokenizer.json": tokenizer_json()})
    write_rows(tmp_path / "in", "parquet", [{"text": "w1 w2 w3", "image": image(n)} for n in range(3)])
    packed = tokenized(tmp_path / "in", tmp_path / "a", "--image", "image", "--pack_to", 4, command="parquet")
    beside = tokenized(tmp_path / "in", tmp_path / "b", "--image", "image", command="parquet")

    assert packed.features == {"input_ids": "int64[4]"}
    assert beside.features.keys() == {"input_ids", "image"}
    assert beside.stats()["image"]["formats"] == {"jpeg": 3}


def test_the_end_of_text_is_named_or_the_only_one_that_is_known(source: Path, tmp_path: Path, run: Run) -> None:
    named = tokenized(source, tmp_path / "a", *PACKED, "--end_of_text", "w7")
    known = tokenized(source, tmp_path / "b", *PACKED)

    assert _stream(named.rows).count(8) > _stream(known.rows).count(8)
    assert "each with 'w7' behind it" in named.dataset.manifest.notices[0]
    write_files(tmp_path, {"two.json": tokenizer_json((END, "</s>")), "none.json": tokenizer_json(())})
    for name, words in (("two", "special tokens <|endoftext|>, </s>"), ("none", "has no special tokens")):
        flags = ("--tokenizer", tmp_path / f"{name}.json", *PACKED)
        refused = run("text", "--input", source, "--output", tmp_path / "c", "--name", "n", *flags)
        check_mistake(refused, "--pack_to needs --end_of_text", words)
    assert not (tmp_path / "c").exists()


def test_what_the_file_says_of_lengths_is_passed_over_and_said(source: Path, tmp_path: Path) -> None:
    made = Tokenizer.from_str(tokenizer_json().decode())
    made.enable_truncation(3)
    made.enable_padding(length=9)
    made.save(str(tmp_path / "tokenizer.json"))
    table = tokenized(source, tmp_path / "a")

    assert sorted(table.column("input_ids")) == sorted(map(ids_of, TEXTS))
    assert [notice.split(",")[0] for notice in table.dataset.manifest.notices] == [
        f"tokenizer.json says {name} of lists of tokens" for name in ("truncation", "padding")
    ]


def test_no_merge_is_left_out_at_random(tmp_path: Path) -> None:
    """A tokenizer that was saved while a model was trained may say so; the same input has the same bytes even then."""
    content = json.loads(byte_level_json())
    content["model"]["dropout"] = 0.5
    write_files(tmp_path, {"tokenizer.json": json.dumps(content).encode(), "plain.json": byte_level_json()})
    source = write_files(tmp_path / "in", {"a.txt": "\n".join(TEXTS).encode()})
    made = tokenized(source, tmp_path / "a")
    plain = convert("text", source, tmp_path / "b", "--tokenizer", tmp_path / "plain.json")

    assert made.column("input_ids") == plain.column("input_ids")
    assert list(made.dataset.manifest.notices) == [
        "tokenizer.json says dropout of merges, which is ignored: tokens would differ each time"
    ]


@pytest.mark.parametrize("pack", [(), PACKED])
def test_special_tokens_in_texts_are_said_and_can_be_text(tmp_path: Path, pack: tuple[object, ...]) -> None:
    lines = [*TEXTS[:40], f"w1 {END} w2", f"{END}{END}", *TEXTS[40:60], f"w3{END}"]
    end = "<\uff5cend\uff5c>"
    write_files(tmp_path, {"tokenizer.json": byte_level_json(), "wide.json": tokenizer_json((END, end))})
    source = write_files(tmp_path / "in", {"a.txt": "\n".join(lines).encode()})
    splits = ("--splits", "train=1")
    table = tokenized(source, tmp_path / "a", *pack, *splits)
    said = (
        f"texts hold special tokens of tokenizer.json, which became these tokens: {END!r} 4 times (first: a.txt, line"
        " 41); --special_tokens text encodes them as other characters"
    )
    assert table.dataset.manifest.notices[0] == said
    assert "special_tokens" not in table.dataset.manifest.configuration

    as_text = tokenized(source, tmp_path / "b", *pack, *splits, "--special_tokens", "text")
    assert not [notice for notice in as_text.dataset.manifest.notices if "special tokens" in notice]
    assert as_text.dataset.manifest.configuration["special_tokens"] == "text"
    tokenizer = Tokenizer.from_str(byte_level_json().decode())
    special = tokenizer.token_to_id(END)
    assert special is not None
    assert len(_stream(as_text.rows)) > len(_stream(table.rows))
    if not pack:
        assert [_stream(each.rows).count(special) for each in (table, as_text)] == [4, 0]
        tokenizer.encode_special_tokens = True
        assert sorted(as_text.column("input_ids")) == sorted(tokenizer.encode(line).ids for line in lines)
        assert sorted(tokenizer.decode(row["input_ids"]) for row in as_text.rows) == sorted(lines)
        other = write_files(tmp_path / "other", {"b.jsonl": json.dumps({"text": f"w1 {end}"}).encode()})
        wide = convert("jsonl", other, tmp_path / "c", "--tokenizer", tmp_path / "wide.json")
        assert f"{end!r} 1 time (first: b.jsonl, line 1)" in wide.dataset.manifest.notices[0]
