"""`shardmill text --input de=… --input en=…`: an example is a line of each file."""

import gzip
import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer

import shardmill
from tests.support.command import Run, check_mistake, write_files
from tests.support.later import Later
from tests.support.table_results import contents, convert, read_table
from tests.support.tokenizer_files import WORDS, tokenizer_json

tf, tfds = Later("tensorflow"), Later("tensorflow_datasets")

PAIRS = [(f"Zeile {n} ä{'x' * (n % 40)}", f"line {n} {'y' * (n * 7 % 90)}") for n in range(3000)]
SPLITS = ("--splits", "train=0.8,test=0.2")


def lines(part: int, first: int = 0, stop: int | None = None) -> bytes:
    return "".join(f"{pair[part]}\n" for pair in PAIRS[first:stop]).encode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pair of files; the same in three pairs; the same in split folders, of which one file is compressed."""
    files = {"train.de": lines(0), "train.en": lines(1)}
    for number in range(3):
        for part, language in enumerate(("de", "en")):
            piece = lines(part, number * 1000, number * 1000 + 1000)
            files[f"parts/{language}-{number}.txt"] = piece
            packed = language == "en" and number == 0
            files[f"splits/{('train', 'train', 'test')[number]}/{number}.{language}{'.gz' * packed}"] = (
                gzip.compress(piece) if packed else piece
            )
    return write_files(tmp_path_factory.mktemp("parallel"), files)


def args(folder: Path, de: str, en: str) -> tuple[str, ...]:
    """The words behind the command that `convert` of the tests begins with one input."""
    return ("--input", f"de={folder / de}", "--input", f"en={folder / en}")


def make(run: Run, output: Path, *flags: object) -> Path:
    done = run("text", *flags, "--output", output, "--name", "n")
    assert done.status == 0, done.err
    de, en = ("input_ids_de", "input_ids_en") if "--tokenizer" in flags else ("de", "en")
    assert f"Classes: none; {de!r} and {en!r} are parallel texts" in done.out or "copy=" in str(flags)
    return output / "n"


def pairs_in(directory: Path) -> dict[str, set[tuple[str, str]]]:
    table = read_table(directory)
    return {split: {(row["de"].decode(), row["en"].decode()) for row in rows} for split, rows in table.splits.items()}


def test_a_line_of_each_is_an_example(run: Run, folder: Path, tmp_path: Path) -> None:
    flags = (*args(folder, "train.de", "train.en"), *SPLITS, "--num_shards", 3)
    directory = make(run, tmp_path, *flags)

    table = read_table(directory)
    assert table.features == {"de": "bytes", "en": "bytes"}
    assert sorted((row["de"].decode(), row["en"].decode()) for row in table.rows) == sorted(PAIRS)
    assert all(max(sizes) - min(sizes) <= 1 and len(sizes) == 3 for sizes in table.sizes.values())
    assert table.dataset.manifest.input["records"] == len(PAIRS)
    assert table.dataset.manifest.input["size_bytes"] == len(lines(0)) + len(lines(1))
    assert table.stats()["en"]["length_bytes"]["max"] == max(len(row["en"]) for row in table.splits["train"])
    assert run("verify", directory).status == 0
    assert run("inspect", directory).status == 0


def test_tfds_reads_a_translation(run: Run, folder: Path, tmp_path: Path) -> None:
    directory = make(run, tmp_path, *args(folder, "train.de", "train.en"))

    builder = tfds.builder_from_directory(directory / "1.0.0")
    assert isinstance(builder.info.features, tfds.features.Translation)
    assert builder.info.features.languages == ["de", "en"]
    assert builder.info.supervised_keys == ("de", "en")
    found = [(de.decode(), en.decode()) for de, en in tfds.as_numpy(builder.as_dataset("train", as_supervised=True))]
    assert sorted(found) == sorted(PAIRS)
    loaded = shardmill.load(str(directory), "train", batch_size=500)
    texts = [(batch["de"].numpy(), batch["en"].numpy()) for batch in loaded]
    flat = [(d.decode(), e.decode()) for de, en in texts for d, e in zip(de, en, strict=True)]
    assert sorted(flat) == sorted(PAIRS)
    assert loaded.element_spec["de"].dtype == tf.string
    told = [(one["de"], one["en"]) for one in shardmill.examples(str(directory), "train")]
    assert sorted((bytes(de).decode(), bytes(en).decode()) for de, en in told) == sorted(PAIRS)


def test_other_features_beside(run: Run, folder: Path, tmp_path: Path) -> None:
    directory = make(run, tmp_path, *args(folder, "parts/de-*.txt", "parts/en-*.txt"), "--line_numbers")

    builder = tfds.builder_from_directory(directory / "1.0.0")
    assert type(builder.info.features) is tfds.features.FeaturesDict
    assert isinstance(builder.info.features["de"], tfds.features.Text)
    for row in read_table(directory).rows:
        number = int(row["filename"].decode()[3]) * 1000 + row["line_number"] - 1
        assert (row["de"].decode(), row["en"].decode()) == PAIRS[number]


def test_blocks_and_threads_do_not_show(run: Run, folder: Path, tmp_path: Path) -> None:
    flags = (*args(folder, "train.de", "train.en"), *SPLITS)
    whole = contents(make(run, tmp_path / "a", *flags) / "1.0.0")
    small = contents(make(run, tmp_path / "b", *flags, "--block_size", "1KiB", "--threads", 3) / "1.0.0")
    assert small == whole


def test_split_folders_and_a_compressed_file(run: Run, folder: Path, tmp_path: Path) -> None:
    directory = make(run, tmp_path, *args(folder, "splits", "splits"))
    assert pairs_in(directory) == {"train": set(PAIRS[:2000]), "test": set(PAIRS[2000:])}
    assert not [notice for notice in read_table(directory).dataset.manifest.notices if "passed over" in notice]


def test_three_languages_with_other_names(run: Run, folder: Path, tmp_path: Path) -> None:
    flags = (*args(folder, "train.de", "train.en"), "--input", f"copy={folder / 'train.de'}", "--rename", "de=german")
    failed = run("text", *flags, "--output", tmp_path, "--name", "n")
    check_mistake(failed, "both have the file")
    write_files(tmp_path / "in", {"x": lines(0)})
    directory = make(run, tmp_path, *flags[:4], "--input", f"copy={tmp_path / 'in/x'}", *flags[6:])
    rows = read_table(directory).rows
    assert {(row["german"].decode(), row["en"].decode()) for row in rows} == set(PAIRS)
    assert all(row["copy"] == row["german"] for row in rows)
    assert tfds.builder_from_directory(directory / "1.0.0").info.features.languages == ["copy", "en", "german"]


BAD = {
    "a.de": b"eins\nzwei\n\nvier\n\n\xff\n",
    "a.en": b"one\n\nthree\nfour\n\nsix\n",
    "short.en": b"one\ntwo\n",
    "b/1.en": b"x\n",
}


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("de=a.de", "en=short.en"), "de=a.de has 6 lines and en=short.en has 2 lines: line n of the one"),
        (("de=a.de", "en=*.en"), "--input de=a.de has 1 and --input en=*.en has 2 files: files are paired"),
        (("de=a.de", "en=gone.en"), "--input gone.en: no such file or folder"),
        (("a.de", "a.en"), "--input: a.de is one of several inputs and has no name; expected NAME=PATH of each"),
        (("de=a.de", "de=a.en"), "--input: de= is there twice"),
        (("de=a.de", "en=a.en", "--record", "file"), "--record file: with --input de=… lines of several files are"),
        (
            ("de=a.de", "en=a.en", "--group_by", "fr", *SPLITS),
            "--group_by fr: no such column in --input de=a.de --input en=a.en",
        ),
    ],
)
def test_mistakes(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], said: str) -> None:
    monkeypatch.chdir(write_files(tmp_path / "in", BAD))
    inputs = [word for flag in flags[:2] for word in ("--input", flag)]
    check_mistake(run("text", *inputs, *flags[2:], "--output", tmp_path / "out", "--name", "n"), said)
    assert not (tmp_path / "out").exists()


WORDY = [(" ".join(WORDS[: n % 9 + 1]), " ".join(WORDS[n % 50 : n % 50 + n % 4 + 1])) for n in range(300)]


@pytest.fixture
def wordy(tmp_path: Path) -> Path:
    files = {name: "".join(f"{pair[part]}\n" for pair in WORDY).encode() for part, name in enumerate(("a.de", "a.en"))}
    return write_files(tmp_path / "in", {**files, "t.json": tokenizer_json()})


def test_each_language_has_its_tokens(run: Run, wordy: Path, tmp_path: Path) -> None:
    flags = (*args(wordy, "a.de", "a.en"), "--tokenizer", wordy / "t.json", "--max_length", 5, "--num_shards", 3)
    directory = make(run, tmp_path, *flags, "--balance", "tokens")

    table = read_table(directory)
    assert table.features == {"input_ids_de": "int64[]", "input_ids_en": "int64[]"}
    alone = Tokenizer.from_str(tokenizer_json().decode())
    expected = [tuple(tuple(alone.encode(text).ids[:5]) for text in pair) for pair in WORDY]
    assert sorted((tuple(row["input_ids_de"]), tuple(row["input_ids_en"])) for row in table.rows) == sorted(expected)
    counted = json.loads((table.directory / "stats.json").read_text())["splits"]["train"]["tokens"]
    assert counted == sum(len(ids) for pair in expected for ids in pair)
    long = [len(text.split()) - 5 for pair in WORDY for text in pair if len(text.split()) > 5]
    assert list(table.dataset.manifest.notices) == [
        f"{len(long)} of 600 texts had more than --max_length 5 tokens and were cut: {sum(long)} tokens were lost"
    ]
    builder = tfds.builder_from_directory(table.directory)
    assert type(builder.info.features) is tfds.features.FeaturesDict
    assert builder.info.supervised_keys == ("input_ids_de", "input_ids_en")
    found = [
        (tuple(de.tolist()), tuple(en.tolist()))
        for de, en in tfds.as_numpy(builder.as_dataset("train", as_supervised=True))
    ]
    assert sorted(found) == sorted(expected)
    assert run("verify", directory).status == 0


def test_texts_beside_their_tokens(run: Run, wordy: Path, tmp_path: Path) -> None:
    flags = (*args(wordy, "a.de", "a.en"), "--tokenizer", wordy / "t.json", "--keep_text")
    directory = make(run, tmp_path, *flags)
    assert list(read_table(directory).features) == ["de", "input_ids_de", "en", "input_ids_en"]
    assert run("verify", directory).status == 0


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            ("--pack_to", 8),
            "would part the 2 of an example that belong together; leave it out (--max_length cuts each text,"
            " shardmill.load(…, pad=True) fills each batch up to its longest), or, for a language model, write the",
        ),
        (("--tokenize", "de"), "--tokenize de and --input de=…: the texts of all files are tokenized; leave it out"),
    ],
)
def test_what_tokens_of_pairs_are_not(
    flags: tuple[object, ...], said: str, run: Run, wordy: Path, tmp_path: Path
) -> None:
    inputs = (*args(wordy, "a.de", "a.en"), "--tokenizer", wordy / "t.json", *flags)
    check_mistake(run("text", *inputs, "--output", tmp_path / "out", "--name", "n"), said)


def test_bad_lines_are_rejects(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write_files(tmp_path / "in", BAD))
    directory = make(run, tmp_path, "--input", "de=a.de", "--input", "en=a.en", "--max_reject_fraction", 0.9)

    table = read_table(directory)
    assert sorted((row["de"], row["en"]) for row in table.rows) == [(b"eins", b"one"), (b"vier", b"four")]
    assert [(r["source"], r["line"], r["reason"]) for r in table.rejects()] == [
        ("a.de", 2, "an empty text: the line is blank in 'en', and not in 'de'"),
        ("a.de", 3, "an empty text: the line is blank in 'de', and not in 'en'"),
        ("a.de", 6, "'de': not utf-8: byte 0xff (ÿ in cp1252) at position 1 of the line"),
    ]
    assert "passed over 1 blank line" in table.dataset.manifest.notices


def test_dry_run_and_from_python(run: Run, folder: Path, tmp_path: Path) -> None:
    shown = run("text", *args(folder, "train.de", "train.en"), "--output", tmp_path, "--name", "n", "--dry_run")
    assert shown.status == 0, shown.err
    assert "2 files, " in shown.out
    assert "  de: bytes\n  en: bytes" in shown.out
    inputs = {"de": str(folder / "train.de"), "en": str(folder / "train.en")}
    published = shardmill.convert("text", input=inputs, output=tmp_path, name="n")
    assert pairs_in(Path(published.directory)) == {"train": set(PAIRS)}


def test_a_night_sees_each_file_change(run: Run, folder: Path, tmp_path: Path) -> None:
    source = write_files(tmp_path / "in", {"a.de": lines(0, 0, 50), "a.en": lines(1, 0, 50)})
    recipe = tmp_path / "r.yaml"
    recipe.write_text(
        f"name: n\noutput: {tmp_path / 'sets'}\ntext:\n  input:\n    de: {source / 'a.de'}\n    en: {source / 'a.en'}\n"
    )
    assert run("rebuild", recipe, "--json").status == 0
    again = run("rebuild", recipe, "--json")
    assert json.loads(again.out)["status"] == "unchanged"
    (source / "a.en").write_bytes(lines(1, 50, 100))
    third = run("rebuild", recipe, "--json")
    assert json.loads(third.out)["status"] == "published"
    assert pairs_in(tmp_path / "sets/n") == {
        "train": {(de, en) for (de, _), (_, en) in zip(PAIRS[:50], PAIRS[50:100], strict=True)}
    }
    assert json.loads(third.out)["reason"] == "0 files new, 1 changed, 0 gone"


def test_keys_and_groups_are_columns(run: Run, folder: Path, tmp_path: Path) -> None:
    source = write_files(tmp_path / "in", {"a.de": b"a\nb\nc\nd\n" * 30, "a.en": lines(1, 0, 120)})
    directory = make(run, tmp_path, *args(source, "a.de", "a.en"), "--group_by", "de", "--splits", "x=0.5,y=0.5")
    found = pairs_in(directory)
    texts = {split: {de for de, _ in pairs} for split, pairs in found.items()}
    assert texts["x"] | texts["y"] == set("abcd")
    assert not texts["x"] & texts["y"]


def test_one_input_is_as_it_was(folder: Path, tmp_path: Path) -> None:
    table = convert("text", folder / "train.de", tmp_path)
    assert table.features == {"text": "bytes"}
