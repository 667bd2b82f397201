"""`--tokenizer`: texts of any route as token ids, one text an example or packed into blocks."""

import json
from collections.abc import Iterable

import pytest
from tokenizers import Tokenizer

from shardmill.addons.tokens.packing import PackedShards, Packing
from tests.support.command import Run, image, tree_bytes
from tests.support.jobs import Built, Jobs
from tests.support.table_results import encode_rows
from tests.support.tokenizer_files import END, TEXTS, WORDS, around, byte_level_json, ids_of, tokenizer_json

BLOCK = 32
PACKED = f"--pack_to {BLOCK}"
LINE = "text --tokenizer tokenizer.json"
TOKENIZER = {"../tokenizer.json": tokenizer_json()}
FILES = {f"{name}.txt": "".join(f"{text}\n" for text in TEXTS[place::2]) for place, name in enumerate("ab")} | TOKENIZER


def _stream(rows: Iterable[dict[str, list[int]]]) -> list[int]:
    return [token for row in rows for token in row["input_ids"]]


def _tokens(built: Built) -> dict[str, int]:
    return {name: split["tokens"] for name, split in built.json("stats.json")["splits"].items()}


def test_each_line_is_the_ids_that_tokenizers_makes_of_it(jobs: Jobs, run: Run) -> None:
    built = jobs.build(f"{LINE} --splits train=0.8,test=0.2", files=FILES)

    assert built.table.features == {"input_ids": "int64[]"}
    assert sorted(built.table.column("input_ids")) == sorted(map(ids_of, TEXTS))
    counts = _tokens(built)
    assert counts == {split: len(_stream(rows)) for split, rows in built.table.splits.items()}
    for command in ("inspect", "report"):
        shown = json.loads(run(command, built.directory, "--json").out)
        assert {split["name"]: split["tokens"] for split in shown["splits"]} == counts
    assert f"Tokens: {counts['train']:,} in train" in run("inspect", built.directory).out
    assert run("report", built.directory, "--output", "page.html").status == 0
    assert f"{counts['train']:,}" in (jobs.folder / "page.html").read_text()
    assert run("verify", built.directory).status == 0


def test_the_text_stays_if_asked_for_and_long_ones_are_cut(jobs: Jobs) -> None:
    files = FILES | {"../cls.json": around()}
    built = jobs.build("text --keep_text --max_length 10 --tokenizer cls.json", files=files)
    whole = {text.encode(): ids_of(text, around()) for text in TEXTS}

    assert built.table.features == {"text": "bytes", "input_ids": "int64[]"}
    for row in built.table.rows:
        ids = whole[row["text"]]
        assert row["input_ids"] == (ids if len(ids) <= 10 else [*ids[:9], ids[-1]])  # [SEP] stays
    long = [len(ids) - 10 for ids in whole.values() if len(ids) > 10]
    assert built.notices == [
        f"{len(long)} of 300 texts had more than --max_length 10 tokens and were cut: {sum(long):,} tokens were lost"
    ]


def test_packed_blocks_are_all_texts_one_after_the_other(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs.write(FILES)
    streams = []
    for shards in (1, 3, 7):
        built = jobs.build(f"{LINE} {PACKED} --num_shards {shards} --output {shards}")
        assert built.table.features == {"input_ids": f"int64[{BLOCK}]"}
        assert {len(row["input_ids"]) for row in built.table.rows} == {BLOCK}
        (sizes,) = built.table.sizes.values()
        assert len(sizes) == shards
        assert max(sizes) - min(sizes) <= 1
        streams.append(_stream(built.table.rows))
    stream = streams[0]
    assert stream == streams[1] == streams[2]
    *documents, rest = _split(stream, ids_of(END)[0])
    missing = sorted(map(ids_of, TEXTS))
    total = sum(map(len, missing)) + len(missing)
    left = total - len(stream)
    assert 0 <= left < BLOCK
    for document in documents:
        missing.remove(document)
    assert sum(len(document) + 1 for document in missing) == left + len(rest)
    assert any(document[: len(rest)] == rest for document in missing)
    assert built.notices == [
        f"split 'train': 300 lines, each with '{END}' behind it, are {total:,} tokens: {len(stream) // BLOCK}"
        f" blocks of {BLOCK}; the last {left} tokens fill none and were dropped"
        "; --record paragraph or --record file joins lines to one text"
    ]
    assert built.manifest.input["records"] == built.manifest.input["in_examples"] == 300
    assert _tokens(built) == {"train": len(stream)}
    assert built.stats["input_ids"]["max"] == max(stream)
    # Many segments are one stream
    monkeypatch.setattr(Packing, "make_shards", lambda packing, _: PackedShards(packing.block, packing.name, 1))
    again = jobs.build(f"{LINE} {PACKED} --num_shards 7 --output b")
    assert tree_bytes(again.directory) == tree_bytes(built.directory)


def _split(stream: list[int], end: int) -> list[list[int]]:
    found: list[list[int]] = [[]]
    for token in stream:
        if token == end:
            found.append([])
        else:
            found[-1].append(token)
    return found


def test_a_text_of_many_blocks_goes_on_in_the_next_shards(jobs: Jobs) -> None:
    long = " ".join(WORDS * 20)
    jobs.write(TOKENIZER | {"a.txt": "\n".join([*TEXTS[:5], long, *TEXTS[5:9]])})
    table = jobs.build(f"{LINE} {PACKED} --num_shards 20").table
    one = _stream(jobs.build(f"{LINE} {PACKED} --output b").table.rows)

    assert len(table.sizes["train"]) == 20
    assert _stream(table.rows) == one
    assert f",{str(ids_of(long))[1:-1]},".replace(" ", "") in f",{str(one)[1:-1]},".replace(" ", "")


@pytest.mark.parametrize("flags", [PACKED, "--balance tokens --max_length 12"])
def test_neither_threads_nor_blocks_nor_workers_show(flags: str, jobs: Jobs) -> None:
    line = f"{LINE} {flags} --num_shards 3 --splits train=0.7,test=0.3"
    first = tree_bytes(jobs.build(line, files=FILES).directory)
    workers = "--direct_running_mode multi_processing --direct_num_workers 2"
    for place, others in enumerate(("--threads 4 --block_size 1KiB", *([workers] if flags == PACKED else []))):
        assert tree_bytes(jobs.build(f"{line} {others} --output b{place}").directory) == first


def test_shards_are_balanced_in_tokens(jobs: Jobs) -> None:
    sums = {}
    for balance in ("examples", "tokens"):
        line = f"{LINE} --num_shards 4 --balance {balance} --output {balance}"
        table = jobs.build(line, files=FILES).table
        rows = iter(table.rows)
        sums[balance] = [sum(len(next(rows)["input_ids"]) for _ in range(size)) for size in table.sizes["train"]]
    assert max(sums["tokens"]) - min(sums["tokens"]) <= max(map(len, map(ids_of, TEXTS)))
    assert sum(sums["tokens"]) == sum(sums["examples"])
    assert sums["tokens"] != sums["examples"]


@pytest.mark.parametrize(("flags", "least", "most"), [("--balance tokens", 2049, 6144), (PACKED, 1025, 4096)])
def test_shard_size_is_in_bytes_whatever_is_balanced(flags: str, least: int, most: int, jobs: Jobs) -> None:
    shards = jobs.build(f"{LINE} {flags} --shard_size 4KiB", files=FILES).manifest.splits[0].shards
    assert len(shards) > 2
    assert all(least <= shard.size_bytes <= most for shard in shards)


@pytest.mark.parametrize("command", ["csv", "parquet"])
def test_a_column_of_a_table(command: str, jobs: Jobs) -> None:
    rows: list[dict[str, object]] = [{"id": n, "body": text} for n, text in enumerate(TEXTS[:60])]
    rows += [{"id": 60, "body": None}, {"id": 61, "body": " "}]
    jobs.write(TOKENIZER | {f"a.{command}": encode_rows(command, rows)})
    line = f"{command} --tokenizer tokenizer.json --tokenize body --max_reject_fraction 0.1"
    built = jobs.build(line)

    assert built.table.features == {"id": "int64", "input_ids": "int64[]"}
    ids = {row["id"]: row["input_ids"] for row in built.table.rows}
    assert ids == {n: ids_of(text) for n, text in enumerate(TEXTS[:60])}
    assert sorted(built.reasons.values()) == [
        "an empty text: tokenizer.json makes no token of it",
        "no text: column 'body' has no value",
    ]
    packed = jobs.build(f"{line} {PACKED} --output b")
    assert "left out 'id': a block has parts of several texts, and nothing but their tokens" in packed.notices
    assert packed.manifest.input["in_examples"] == 60


def test_a_list_among_texts_is_a_reject(jobs: Jobs) -> None:
    files = TOKENIZER | {"a.jsonl": '{"body": "w1 w2"}\n{"body": ["w1", "w2"]}\n'}
    line = "jsonl --tokenizer tokenizer.json --tokenize body --max_reject_fraction 0.5"
    built = jobs.build(line, files=files)
    assert [row["input_ids"] for row in built.table.rows] == [ids_of("w1 w2")]
    assert len(built.reasons) == 1


def test_images_beside_texts_are_left_out_of_blocks_and_stay_beside_tokens(jobs: Jobs) -> None:
    rows = encode_rows("parquet", [{"text": "w1 w2 w3", "image": image(n)} for n in range(3)])
    line = "parquet --tokenizer tokenizer.json --image image"
    beside = jobs.build(line, files=TOKENIZER | {"a.parquet": rows})

    assert beside.table.features.keys() == {"input_ids", "image"}
    assert beside.stats["image"]["formats"] == {"jpeg": 3}
    assert jobs.build(f"{line} --pack_to 4 --output b").table.features == {"input_ids": "int64[4]"}


def test_the_end_of_text_is_named_or_the_only_one_that_is_known(jobs: Jobs) -> None:
    others = {"../two.json": tokenizer_json((END, "</s>")), "../none.json": tokenizer_json(())}
    named = jobs.build(f"{LINE} {PACKED} --end_of_text w7", files=FILES | others)
    known = jobs.build(f"{LINE} {PACKED} --output b")

    assert _stream(named.table.rows).count(8) > _stream(known.table.rows).count(8)
    assert "each with 'w7' behind it" in named.notices[0]
    for name, words in (("two", "special tokens <|endoftext|>, </s>"), ("none", "has no special tokens")):
        jobs.refuse(f"text --tokenizer {name}.json {PACKED} --output c", f"--pack_to needs --end_of_text…{words}")


def test_what_the_file_says_of_lengths_is_passed_over_and_said(jobs: Jobs) -> None:
    made = Tokenizer.from_str(tokenizer_json().decode())
    made.enable_truncation(3)
    made.enable_padding(length=9)
    built = jobs.build(LINE, files=FILES | {"../tokenizer.json": made.to_str()})

    assert sorted(built.table.column("input_ids")) == sorted(map(ids_of, TEXTS))
    assert [notice.split(",")[0] for notice in built.notices] == [
        f"tokenizer.json says {name} of lists of tokens" for name in ("truncation", "padding")
    ]


def test_no_merge_is_left_out_at_random(jobs: Jobs) -> None:
    """A tokenizer that was saved while a model was trained may say so; the same input has the same bytes even then."""
    content = json.loads(byte_level_json())
    content["model"]["dropout"] = 0.5
    jobs.write(
        {"../tokenizer.json": json.dumps(content), "../plain.json": byte_level_json(), "a.txt": "\n".join(TEXTS)}
    )
    made, plain = jobs.build(LINE), jobs.build("text --tokenizer plain.json --output b")

    assert made.table.column("input_ids") == plain.table.column("input_ids")
    assert made.notices == ["tokenizer.json says dropout of merges, which is ignored: tokens would differ each time"]


@pytest.mark.parametrize("pack", ["", PACKED])
def test_special_tokens_in_texts_are_said_and_can_be_text(jobs: Jobs, pack: str) -> None:
    lines = [*TEXTS[:40], f"w1 {END} w2", f"{END}{END}", *TEXTS[40:60], f"w3{END}"]
    end = "<\uff5cend\uff5c>"
    jobs.write({"../tokenizer.json": byte_level_json(), "../wide.json": tokenizer_json((END, end))})
    built = jobs.build(f"{LINE} {pack} --splits train=1", files={"a.txt": "\n".join(lines)})
    said = (
        f"texts hold special tokens of tokenizer.json, which became these tokens: {END!r} 4 times (first: a.txt, line"
        " 41); --special_tokens text encodes them as other characters"
    )
    assert built.notices[0] == said
    assert "special_tokens" not in built.manifest.configuration

    as_text = jobs.build(f"{LINE} {pack} --splits train=1 --special_tokens text --output b")
    assert as_text.manifest.configuration["special_tokens"] == "text"
    tokenizer = Tokenizer.from_str(byte_level_json().decode())
    special = tokenizer.token_to_id(END)
    assert special is not None
    assert len(_stream(as_text.table.rows)) > len(_stream(built.table.rows))
    if not pack:
        assert [_stream(each.table.rows).count(special) for each in (built, as_text)] == [4, 0]
        tokenizer.encode_special_tokens = True
        assert sorted(as_text.table.column("input_ids")) == sorted(tokenizer.encode(line).ids for line in lines)
        assert sorted(tokenizer.decode(row["input_ids"]) for row in as_text.table.rows) == sorted(lines)
        files = {"b.jsonl": json.dumps({"text": f"w1 {end}"})}
        wide = jobs.build("jsonl --input in/b.jsonl --output c --tokenizer wide.json", files=files)
        assert f"{end!r} 1 time (first: b.jsonl, line 1)" in wide.notices[0]
