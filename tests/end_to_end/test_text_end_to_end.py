"""`shardmill text`: an example a line, a file, a document, or a line of each of several files."""

import gzip
import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer

import shardmill
from tests.support.command import Run, check_mistake, write_files
from tests.support.jobs import Jobs
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
        ("de=in/a.de en=in/short.en", "de=a.de has 6 lines and en=short.en has 2 lines: line n of the one"),
        ("de=in/a.de en=in/*.en", "--input de=in/a.de has 1 and --input en=in/*.en has 2 files: files are paired"),
        ("de=in/a.de en=gone.en", "--input gone.en: no such file or folder"),
        ("in/a.de in/a.en", "--input: in/a.de is one of several inputs and has no name; expected NAME=PATH of each"),
        ("de=in/a.de de=in/a.en", "--input: de= is there twice"),
        ("de=in/a.de en=in/a.en --record file", "--record file: with --input de=… lines of several files are"),
        (
            "de=in/a.de en=in/a.en --group_by fr --splits train=0.8,test=0.2",
            "--group_by fr: no such column in --input de=in/a.de --input en=in/a.en",
        ),
        (
            "de=in/a.de en=in/a.en --tokenizer in/t.json --pack_to 8",
            "would part the 2 of an example that belong together; leave it out (--max_length cuts each text,"
            " shardmill.load(… pad=True) fills each batch up to its longest), or, for a language model, write the",
        ),
        (
            "de=in/a.de en=in/a.en --tokenizer in/t.json --tokenize de",
            "--tokenize de and --input de=… the texts of all files are tokenized; leave it out",
        ),
    ],
)
def test_mistakes(jobs: Jobs, flags: str, said: str) -> None:
    one, other, *more = flags.split()
    jobs.refuse("text", said, "--input", one, "--input", other, *more, files={**BAD, "t.json": tokenizer_json()})


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


def test_keys_and_groups_are_columns(run: Run, folder: Path, tmp_path: Path) -> None:
    source = write_files(tmp_path / "in", {"a.de": b"a\nb\nc\nd\n" * 30, "a.en": lines(1, 0, 120)})
    directory = make(run, tmp_path, *args(source, "a.de", "a.en"), "--group_by", "de", "--splits", "x=0.5,y=0.5")
    found = pairs_in(directory)
    texts = {split: {de for de, _ in pairs} for split, pairs in found.items()}
    assert texts["x"] | texts["y"] == set("abcd")
    assert not texts["x"] & texts["y"]


LINES = [f"line {number}: naïve “text” {'x' * (number % 40)}" for number in range(2000)]


def text(lines: list[str], end: str = "\n") -> bytes:
    return "".join(f"{line}{end}" for line in lines).encode()


@pytest.fixture(scope="session")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2,000 lines in two classes, with line ends and compression of both kinds, blank lines among them."""
    files = {
        "neg/a.txt": text(LINES[:500]),
        "neg/b.txt": text(LINES[500:800], "\r\n"),
        "pos/c.txt.gz": gzip.compress(text(["", *LINES[800:1500], "  "])),
        "pos/deep/d.txt": text(LINES[1500:]).rstrip(b"\n"),
    }
    return write_files(tmp_path_factory.mktemp("text"), files)


def test_a_line_an_example(reviews: Path, tmp_path: Path) -> None:
    table = convert("text", reviews, tmp_path, "--num_shards", 6, "--line_numbers", "--block_size", "2KiB")
    assert table.features == {"text": "bytes", "label": "int64", "filename": "bytes", "line_number": "int64"}
    assert sorted(table.column("text")) == sorted(line.encode() for line in LINES)
    assert (table.directory / "label.labels.txt").read_text() == "neg\npos\n"
    assert "passed over 2 blank lines" in table.dataset.manifest.notices
    starts = {
        b"neg/a.txt": (0, 1, 0),
        b"neg/b.txt": (500, 1, 0),
        b"pos/c.txt.gz": (800, 2, 1),
        b"pos/deep/d.txt": (1500, 1, 1),
    }
    for row in table.rows:
        first, line, label = starts[row["filename"]]
        assert row["text"].decode() == LINES[first + row["line_number"] - line]
        assert row["label"] == label
    assert set(table.sizes["train"]) == {333, 334}
    assert table.stats()["text"]["length_bytes"]["max"] == max(len(line.encode()) for line in LINES)


def test_lines_without_classes(reviews: Path, tmp_path: Path) -> None:
    table = convert("text", reviews / "neg", tmp_path, "--splits", "train=0.5,test=0.5")
    assert table.features == {"text": "bytes"}
    assert sorted(table.column("text")) == sorted(line.encode() for line in LINES[:800])
    assert 320 < len(table.splits["train"]) < 480


def test_lines_in_another_encoding(tmp_path: Path) -> None:
    source = write_files(tmp_path / "in", {"a.txt": "café\nœuvre\n".encode("cp1252")})
    texts = convert("text", source, tmp_path, "--encoding", "cp1252").column("text")
    assert sorted(texts) == sorted(["café".encode(), "œuvre".encode()])


def test_a_file_an_example(tmp_path: Path) -> None:
    files = {
        f"{label}/{n}.txt": f"{label} review {n}\nsecond line é".encode() for label in ("neg", "pos") for n in range(40)
    }
    odd = {
        "pos/bom.txt": "\ufeffmark".encode(),
        "pos/empty.txt": b"",
        "pos/blank.txt": b" \n",
        "neg/latin.txt": b"\xe9",
    }
    source = write_files(tmp_path / "in", {**files, **odd})
    flags = ("--record", "file", "--splits", "train=0.75,test=0.25", "--stratify_by", "label", "--num_shards", 2)
    table = convert("text", source, tmp_path, *flags, "--max_reject_fraction", 0.1)
    assert table.features == {"text": "bytes", "label": "int64", "filename": "bytes"}
    by_name = {row["filename"].decode(): row for row in table.rows}
    assert by_name.keys() == {*files, "pos/bom.txt"}
    assert all(by_name[name]["text"] == content for name, content in files.items())
    assert by_name["pos/bom.txt"]["text"] == b"mark"
    assert {row["label"] for name, row in by_name.items() if name.startswith("pos")} == {1}
    assert {r["source"]: r["reason"] for r in table.rejects()} == {
        "neg/latin.txt": "byte 0 is not utf-8: unexpected end of data; --encoding cp1252 reads it as 'é'",
        "pos/blank.txt": "the file holds nothing but white space",
        "pos/empty.txt": "the file is empty",
    }
    counted = [table.stats(split)["label"]["classes"] for split in ("train", "test")]
    assert {name: counted[0][name] + counted[1][name] for name in ("neg", "pos")} == {"neg": 40, "pos": 41}


def test_files_in_another_encoding(tmp_path: Path) -> None:
    source = write_files(tmp_path / "in", {"a.txt": "café".encode("utf-16")})
    assert convert("text", source, tmp_path, "--record", "file", "--encoding", "utf-16").column("text") == [
        "café".encode()
    ]


def test_file_mistakes(jobs: Jobs) -> None:
    jobs.refuse("text --record file --line_numbers", "--line_numbers needs --record line", files={"a.txt": "x"})
    jobs.refuse("text --record file --encoding klingon", "--encoding klingon: unknown encoding 'klingon'")
    (jobs.folder / "in/a.txt").unlink()
    jobs.refuse("text --record file", "nothing matches --input")


def test_dry_run_of_files(tmp_path: Path, run: Run) -> None:
    source = write_files(tmp_path / "in", {"a/1.txt": b"x", "b/2.txt": b"y"})
    result = run(
        "text", "--record", "file", "--input", source, "--output", tmp_path / "out", "--name", "n", "--dry_run"
    )
    assert (result.status, (tmp_path / "out").exists()) == (0, False)
    assert "2 files" in result.out


STORIES = b"Once upon\na time.\n<|endoftext|>\n\n  Second story.\n\nEnd.\r\n<|endoftext|>\n<|endoftext|>\nThird\n"


@pytest.mark.parametrize(
    ("flags", "texts", "configuration", "notices"),
    [
        (
            ("--separator", "<|endoftext|>"),
            [b"Once upon\na time.", b"  Second story.\n\nEnd.", b"Third"],
            {"separator": "<|endoftext|>"},
            ["passed over 1 empty document"],
        ),
        (
            ("--record", "paragraph"),
            [b"Once upon\na time.\n<|endoftext|>", b"  Second story.", b"End.\r\n<|endoftext|>\n<|endoftext|>\nThird"],
            {"text_unit": "paragraph"},
            [],
        ),
        (
            ("--separator", "===="),
            [STORIES.strip()],
            {"separator": "===="},
            ["1 record, such as 'a.txt': no --separator in its file, which is one document"],
        ),
        (("--record", "line"), [*filter(None, STORIES.replace(b"\r", b"").split(b"\n"))], {"text_unit": "line"}, None),
    ],
)
def test_documents_of_several_lines(
    tmp_path: Path,
    flags: tuple[str, ...],
    texts: list[bytes],
    configuration: dict[str, str],
    notices: list[str] | None,
) -> None:
    source = write_files(tmp_path / "in", {"a.txt": STORIES})
    table = convert("text", source, tmp_path, *flags, "--splits", "train=1", "--no_shuffle")
    assert table.column("text") == texts
    assert configuration.items() <= table.dataset.manifest.configuration.items()
    assert notices is None or list(table.dataset.manifest.notices) == notices
