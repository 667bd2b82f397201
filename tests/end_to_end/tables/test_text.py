"""`shardmill text`: an example a line, a file, a document, or a line of each of several files."""

import gzip
from pathlib import Path

import pytest
from tokenizers import Tokenizer

import shardmill
from tests.support.command import Run, write_files
from tests.support.jobs import Built, Files, Jobs
from tests.support.later import Later
from tests.support.table_results import contents, read_table
from tests.support.tokenizer_files import WORDS, tokenizer_json

tf, tfds = Later("tensorflow"), Later("tensorflow_datasets")

PAIRS = [(f"Zeile {n} ä{'x' * (n % 40)}", f"line {n} {'y' * (n * 7 % 90)}") for n in range(3000)]
SPLITS = "--splits train=0.8,test=0.2"


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


NAMES = {"a.csv": "csv", "A.TSV": "csv", "a.csv.gz": "csv", "a.json": "jsonl", "a.jsonl": "jsonl", "a.ndjson": "jsonl"}


@pytest.mark.parametrize("name", NAMES)
def test_the_command_that_reads_a_table_is_named(jobs: Jobs, name: str) -> None:
    data = b"n\n1\n" if NAMES[name] == "csv" else b'{"n": 1}\n{"n": 2}\n'
    built = jobs.build(f"text --input in/{name}", files={name: gzip.compress(data) if name.endswith("gz") else data})
    advice = f"`shardmill {NAMES[name]}` with the same --input reads columns, --record line keeps texts"

    assert built.notices == [f"2 lines of tables are texts here: {advice}; the first is {name}, line 1"]
    assert "n" in jobs.build(f"{NAMES[name]} --input in/{name} --overwrite").table.features


def command(folder: Path | str, de: str = "train.de", en: str = "train.en") -> str:
    return f"text --input de={folder}/{de} --input en={folder}/{en}"


def pairs_in(built: Built) -> dict[str, set[tuple[str, str]]]:
    splits = built.table.splits
    return {split: {(row["de"].decode(), row["en"].decode()) for row in rows} for split, rows in splits.items()}


def test_a_line_of_each_is_an_example(jobs: Jobs, run: Run, folder: Path) -> None:
    built = jobs.build(f"{command(folder)} {SPLITS} --num_shards 3")

    table = built.table
    assert "Classes: none; 'de' and 'en' are parallel texts" in built.said
    assert table.features == {"de": "bytes", "en": "bytes"}
    assert sorted((row["de"].decode(), row["en"].decode()) for row in table.rows) == sorted(PAIRS)
    assert all(max(sizes) - min(sizes) <= 1 and len(sizes) == 3 for sizes in table.sizes.values())
    assert built.manifest.input["records"] == len(PAIRS)
    assert built.manifest.input["size_bytes"] == len(lines(0)) + len(lines(1))
    assert built.stats["en"]["length_bytes"]["max"] == max(len(row["en"]) for row in table.splits["train"])
    assert run("verify", built.directory).status == 0
    assert run("inspect", built.directory).status == 0
    small = jobs.build(f"{command(folder)} {SPLITS} --num_shards 3 --output b --block_size 1KiB --threads 3")
    assert contents(small.directory) == contents(built.directory)


@pytest.mark.slow
def test_tfds_reads_a_translation(jobs: Jobs, folder: Path) -> None:
    directory = jobs.build(command(folder)).directory

    builder = tfds.builder_from_directory(directory)
    assert isinstance(builder.info.features, tfds.features.Translation)
    assert builder.info.features.languages == ["de", "en"]
    assert builder.info.supervised_keys == ("de", "en")
    found = [(de.decode(), en.decode()) for de, en in tfds.as_numpy(builder.as_dataset("train", as_supervised=True))]
    assert sorted(found) == sorted(PAIRS)
    loaded = shardmill.load(directory, "train", batch_size=500)
    texts = [(batch["de"].numpy(), batch["en"].numpy()) for batch in loaded]
    flat = [(d.decode(), e.decode()) for de, en in texts for d, e in zip(de, en, strict=True)]
    assert sorted(flat) == sorted(PAIRS)
    assert loaded.element_spec["de"].dtype == tf.string
    told = [(bytes(one["de"]).decode(), bytes(one["en"]).decode()) for one in shardmill.examples(directory, "train")]
    assert sorted(told) == sorted(PAIRS)


@pytest.mark.slow
def test_other_features_beside(jobs: Jobs, folder: Path) -> None:
    built = jobs.build(f"{command(folder, 'parts/de-*.txt', 'parts/en-*.txt')} --line_numbers")

    features = tfds.builder_from_directory(built.directory).info.features
    assert type(features) is tfds.features.FeaturesDict
    assert isinstance(features["de"], tfds.features.Text)
    for row in built.table.rows:
        number = int(row["filename"].decode()[3]) * 1000 + row["line_number"] - 1
        assert (row["de"].decode(), row["en"].decode()) == PAIRS[number]


def test_split_folders_and_a_compressed_file(jobs: Jobs, folder: Path) -> None:
    built = jobs.build(command(folder, "splits", "splits"))
    assert pairs_in(built) == {"train": set(PAIRS[:2000]), "test": set(PAIRS[2000:])}
    assert "passed over" not in built.said


@pytest.mark.slow
def test_three_languages_with_other_names(jobs: Jobs, folder: Path) -> None:
    line = f"{command(folder)} --rename de=german --input"
    jobs.refuse(f"{line} copy={folder}/train.de", "both have the file")
    built = jobs.build(f"{line} copy=in/x", files={"x": lines(0)})
    assert {(row["german"].decode(), row["en"].decode()) for row in built.table.rows} == set(PAIRS)
    assert all(row["copy"] == row["german"] for row in built.table.rows)
    assert tfds.builder_from_directory(built.directory).info.features.languages == ["copy", "en", "german"]


BAD = {
    "a.de": b"eins\nzwei\n\nvier\n\n\xff\n",
    "a.en": b"one\n\nthree\nfour\n\nsix\n",
    "short.en": b"one\ntwo\n",
    "b/1.en": b"x\n",
}


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("de=in/a.de en=gone.en", "--input gone.en: no such file or folder"),
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
    jobs.refuse("text", said, "--input", one, "--input", other, *more, files=BAD | {"t.json": tokenizer_json()})


WORDY = [(" ".join(WORDS[: n % 9 + 1]), " ".join(WORDS[n % 50 : n % 50 + n % 4 + 1])) for n in range(300)]
WORDY_FILES = {name: "\n".join(pair[part] for pair in WORDY) for part, name in enumerate(("a.de", "a.en"))}


@pytest.mark.slow
def test_each_language_has_its_tokens(jobs: Jobs, run: Run) -> None:
    line = f"{command('in', 'a.de', 'a.en')} --tokenizer in/t.json"
    jobs.write(WORDY_FILES | {"t.json": tokenizer_json()})
    built = jobs.build(f"{line} --max_length 5 --num_shards 3 --balance tokens")

    assert "Classes: none; 'input_ids_de' and 'input_ids_en' are parallel texts" in built.said
    assert built.table.features == {"input_ids_de": "int64[]", "input_ids_en": "int64[]"}
    alone = Tokenizer.from_str(tokenizer_json().decode())
    expected = [tuple(tuple(alone.encode(text).ids[:5]) for text in pair) for pair in WORDY]
    rows = built.table.rows
    assert sorted((tuple(row["input_ids_de"]), tuple(row["input_ids_en"])) for row in rows) == sorted(expected)
    counted = built.json("stats.json")["splits"]["train"]["tokens"]
    assert counted == sum(len(ids) for pair in expected for ids in pair)
    long = [len(text.split()) - 5 for pair in WORDY for text in pair if len(text.split()) > 5]
    assert built.notices == [
        f"{len(long)} of 600 texts had more than --max_length 5 tokens and were cut: {sum(long)} tokens were lost"
    ]
    builder = tfds.builder_from_directory(built.directory)
    assert type(builder.info.features) is tfds.features.FeaturesDict
    assert builder.info.supervised_keys == ("input_ids_de", "input_ids_en")
    read = tfds.as_numpy(builder.as_dataset("train", as_supervised=True))
    assert sorted((tuple(de.tolist()), tuple(en.tolist())) for de, en in read) == sorted(expected)
    beside = jobs.build(f"{line} --keep_text --output b")
    assert list(beside.table.features) == ["de", "input_ids_de", "en", "input_ids_en"]
    for directory in (built.directory, beside.directory):
        assert run("verify", directory).status == 0


def test_dry_run_and_from_python(jobs: Jobs, folder: Path) -> None:
    shown = jobs.run(f"{command(folder)} --dry_run")
    assert shown.status == 0, shown.err
    assert "2 files, " in shown.out
    assert "  de: bytes\n  en: bytes" in shown.out
    inputs = {"de": str(folder / "train.de"), "en": str(folder / "train.en")}
    published = shardmill.convert("text", input=inputs, output="out", name="n")
    rows = read_table(Path(published.directory)).rows
    assert {(row["de"].decode(), row["en"].decode()) for row in rows} == set(PAIRS)


def test_keys_and_groups_are_columns(jobs: Jobs) -> None:
    files: Files = {"a.de": "a\nb\nc\nd\n" * 30, "a.en": lines(1, 0, 120)}
    built = jobs.build(f"{command('in', 'a.de', 'a.en')} --group_by de --splits x=0.5,y=0.5", files=files)
    texts = {split: {de for de, _ in pairs} for split, pairs in pairs_in(built).items()}
    assert texts["x"] | texts["y"] == set("abcd")
    assert not texts["x"] & texts["y"]


LINES = [f"line {number}: naïve “text” {'x' * (number % 40)}" for number in range(2000)]
# In two classes, with line ends and compression of both kinds, blank lines among them
REVIEWS: Files = {
    "neg/a.txt": "".join(f"{line}\n" for line in LINES[:500]),
    "neg/b.txt": "".join(f"{line}\r\n" for line in LINES[500:800]),
    "pos/c.txt.gz": gzip.compress("\n".join(["", *LINES[800:1500], "  ", ""]).encode()),
    "pos/deep/d.txt": "\n".join(LINES[1500:]),
}


def test_a_line_an_example(jobs: Jobs) -> None:
    built = jobs.build("text --folders label --num_shards 6 --line_numbers --block_size 2KiB", files=REVIEWS)
    table = built.table
    assert table.features == {"text": "bytes", "label": "int64", "filename": "bytes", "line_number": "int64"}
    assert sorted(table.column("text")) == sorted(line.encode() for line in LINES)
    assert (built.directory / "label.labels.txt").read_text() == "neg\npos\n"
    assert "passed over 2 blank lines" in built.notices
    starts = {"neg/a.txt": (0, 1, 0), "neg/b.txt": (500, 1, 0)}
    starts |= {"pos/c.txt.gz": (800, 2, 1), "pos/deep/d.txt": (1500, 1, 1)}
    for row in table.rows:
        first, line, label = starts[row["filename"].decode()]
        assert row["text"].decode() == LINES[first + row["line_number"] - line]
        assert row["label"] == label
    assert set(table.sizes["train"]) == {333, 334}
    assert built.stats["text"]["length_bytes"]["max"] == max(len(line.encode()) for line in LINES)

    plain = jobs.build("text --input in/neg --output b --splits train=0.5,test=0.5").table
    assert plain.features == {"text": "bytes"}
    assert sorted(plain.column("text")) == sorted(line.encode() for line in LINES[:800])
    assert 320 < len(plain.splits["train"]) < 480


@pytest.mark.parametrize(
    ("flags", "encoding", "texts"),
    [
        ("--encoding cp1252", "cp1252", ["café", "œuvre"]),
        ("--record file --encoding utf-16", "utf-16", ["café\nœuvre"]),
    ],
)
def test_other_encodings(jobs: Jobs, flags: str, encoding: str, texts: list[str]) -> None:
    built = jobs.build(f"text {flags}", files={"a.txt": "café\nœuvre".encode(encoding)})
    assert sorted(built.table.column("text")) == [text.encode() for text in texts]


def test_a_file_an_example(jobs: Jobs) -> None:
    files = {f"{label}/{n}.txt": f"{label} review {n}\nsecond line é" for label in ("neg", "pos") for n in range(40)}
    odd: Files = {"pos/bom.txt": "\ufeffmark", "pos/empty.txt": "", "pos/blank.txt": " \n", "neg/latin.txt": b"\xe9"}
    flags = "--splits train=0.75,test=0.25 --stratify_by label --num_shards 2 --max_reject_fraction 0.1"
    assert "2 files" in jobs.run("text --record file --dry_run", files=dict(list(files.items())[:2])).out
    assert not (jobs.folder / "out").exists()
    built = jobs.build(f"text --record file {flags}", files={**files, **odd})
    assert built.table.features == {"text": "bytes", "label": "int64", "filename": "bytes"}
    by_name = {row["filename"].decode(): row for row in built.table.rows}
    assert {name: row["text"].decode() for name, row in by_name.items()} == files | {"pos/bom.txt": "mark"}
    assert {row["label"] for name, row in by_name.items() if name.startswith("pos")} == {1}
    assert built.reasons == {
        "neg/latin.txt": "byte 0 is not utf-8: unexpected end of data; if all files are cp1252, --encoding cp1252 reads"
        " it as 'é'",
        "pos/blank.txt": "the file holds nothing but white space",
        "pos/empty.txt": "the file is empty",
    }
    counted = [built.table.stats(split)["label"]["classes"] for split in ("train", "test")]
    assert {name: counted[0][name] + counted[1][name] for name in ("neg", "pos")} == {"neg": 40, "pos": 41}


STORIES = b"Once upon\na time.\n<|endoftext|>\n\n  Second story.\n\nEnd.\r\n<|endoftext|>\n<|endoftext|>\nThird\n"


@pytest.mark.parametrize(
    ("flags", "texts", "configuration", "notices"),
    [
        (
            "--separator '<|endoftext|>'",
            [b"Once upon\na time.", b"  Second story.\n\nEnd.", b"Third"],
            {"separator": "<|endoftext|>"},
            ["passed over 1 empty document"],
        ),
        (
            "--record paragraph",
            [b"Once upon\na time.\n<|endoftext|>", b"  Second story.", b"End.\r\n<|endoftext|>\n<|endoftext|>\nThird"],
            {"text_unit": "paragraph"},
            [],
        ),
        (
            "--separator ====",
            [STORIES.strip()],
            {"separator": "===="},
            ["1 record, such as 'a.txt': no --separator in its file, which is one document"],
        ),
        ("--record line", [*filter(None, STORIES.replace(b"\r", b"").split(b"\n"))], {"text_unit": "line"}, None),
    ],
)
def test_documents_of_several_lines(
    jobs: Jobs, flags: str, texts: list[bytes], configuration: dict[str, str], notices: list[str] | None
) -> None:
    built = jobs.build(f"text {flags} --splits train=1 --no_shuffle", files={"a.txt": STORIES})
    assert built.table.column("text") == texts
    assert configuration.items() <= built.manifest.configuration.items()
    assert notices is None or built.notices == notices
