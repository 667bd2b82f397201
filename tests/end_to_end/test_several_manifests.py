"""Several manifests, globs and Parquet as manifests, and the metadata files of Hugging Face's image folders."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.command import Contents, Run, check_mistake, image, read_back, write_files
from tests.support.jobs import Jobs
from tests.support.masks import encoded, values

ROWS = [{"file_name": f"{n}.jpg", "label": "ab"[n % 2], "age": n} for n in range(8)]


def csv_of(rows: Sequence[Mapping[str, object]]) -> bytes:
    lines: list[list[object]] = [list(rows[0]), *(list(row.values()) for row in rows)]
    return "".join(f"{','.join(map(str, line))}\n" for line in lines).encode()


def json_of(rows: Sequence[Mapping[str, object]]) -> bytes:
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Images, and manifests that list all of them, or some; the current folder."""
    files = {f"{n}.jpg": image(n) for n in range(8)}
    files |= {"all.csv": csv_of(ROWS), "parts/a.csv": b"", "all.jsonl": json_of(ROWS)}
    for name, rows in (("a", ROWS[:5]), ("b", ROWS[5:])):
        files |= {f"{name}.csv": csv_of(rows), f"{name}.jsonl": json_of(rows)}
        moved = [{**row, "file_name": f"../{row['file_name']}"} for row in rows]
        files |= {f"parts/{name}.csv": csv_of(moved), f"m/{name}.csv": csv_of(rows)}
        files |= {f"m/{row['file_name']}": image(int(str(row["age"]))) for row in rows}
    write_files(tmp_path, files)
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "all.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def made(run: Run, *flags: object) -> Contents:
    result = run("images", *flags, "--output", "out", "--name", "n", "--overwrite", "--max_reject_fraction", 0.9)
    assert result.status == 0, result.err
    return read_back(Path("out/n"))


@pytest.mark.parametrize(
    "flags",
    [
        ("--manifest", "a.csv,b.csv"),
        ("--manifest", "a.csv", "--manifest", "b.csv"),
        ("--manifest", "[ab].csv"),
        ("--manifest", "{a,b}.csv"),
        ("--manifest", "all.parquet"),
        ("--manifest", "a.jsonl,b.jsonl"),
    ],
)
def test_all_ways_give_the_records_of_one_manifest(run: Run, folder: Path, flags: tuple[str, ...]) -> None:
    one = made(run, "--manifest", "all.csv")
    several = made(run, *flags)

    assert several.records == one.records
    assert len(several.records) == 8
    assert several.dataset.manifest.features == one.dataset.manifest.features


def test_files_of_other_folders_are_relative_to_each(run: Run, folder: Path) -> None:
    found = made(run, "--manifest", "m/a.csv", "--manifest", "b.csv")

    assert found.records.keys() == {*(f"m/{n}.jpg" for n in range(5)), *(f"{n}.jpg" for n in range(5, 8))}
    outside = made(run, "--manifest", "parts/*.csv", "--allow_outside")
    assert outside.records.keys() == {f"../{n}.jpg" for n in range(8)}


def test_splits_are_those_of_the_files(run: Run, folder: Path) -> None:
    found = made(run, "--manifest", "train=a.csv", "--manifest", "val=b.csv")

    assert {split: sorted(names) for split, names in found.splits.items()} == {
        "train": [f"{n}.jpg" for n in range(5)],
        "validation": [f"{n}.jpg" for n in range(5, 8)],
    }


def test_the_order_of_manifests_is_that_of_rows(run: Run, folder: Path) -> None:
    (names,) = made(run, "--manifest", "b.csv,a.csv", "--no_shuffle").splits.values()

    assert names == [f"{n}.jpg" for n in (5, 6, 7, 0, 1, 2, 3, 4)]


def test_a_path_with_an_equals_sign_is_a_path(run: Run, folder: Path) -> None:
    write_files(folder, {"day=1/m.csv": b"file_name\n1.jpg\n", "day=1/1.jpg": image(1), "c,d.csv": csv_of(ROWS)})

    assert made(run, "--manifest", "day=1/m.csv").records.keys() == {"1.jpg"}
    assert len(made(run, "--manifest", "c,d.csv").records) == 8


def test_parquet_keeps_types(run: Run, folder: Path) -> None:
    rows = [{"file_name": f"{n}.jpg", "v": [n, 1.5], "ok": n % 2 == 0, "text": None if n else "x"} for n in range(4)]
    pq.write_table(pa.Table.from_pylist(rows), folder / "m.parquet", row_group_size=2)
    write_files(folder, {"m.jsonl": json_of(rows)})

    assert made(run, "--manifest", "m.parquet").records == made(run, "--manifest", "m.jsonl").records


BAD = [
    (("--manifest", "gone*.csv"), ("--manifest gone*.csv: no file matches",)),
    (("--manifest", "a.csv,a.csv"), ("--manifest: the file a.csv is there twice",)),
    (("--manifest", "[ab].csv,b.csv"), ("--manifest b.csv: the file is there twice",)),
    (("--manifest", "a.csv,b.jsonl"), ("a.csv and b.jsonl are of formats",)),
    (("--manifest", "train=a.csv", "--manifest", "b.csv"), ("some files have a split and others not",)),
    (("--manifest", "a.csv,other.csv"), ("a.csv has a column 'age', which other.csv has not",)),
    (
        ("--manifest", "train=a.csv", "--manifest", "test=b.csv", "--splits", "train=1"),
        ("--manifest, by file, says the",),
    ),
    (("--manifest", "train=split.csv"), ("--manifest train=split.csv: line 2 has a split of its own, 'x'",)),
    (("--manifest", "a.csv,gone.csv"), ("--manifest gone.csv: no such file",)),
    (("--manifest", "a.csv,none.csv"), ("--manifest: a.csv has a column",)),
    (("--manifest", "none.csv"), ("--manifest none.csv has no column file_name or image_uri",)),
    (("--manifest", "cut.parquet"), ("--manifest cut.parquet cannot be read",)),
    (("--manifest", "none.parquet"), ("--manifest none.parquet has no column file_name or image_uri",)),
    (("--manifest", "odd.parquet"), ("column 'when' is of timestamp[us]", "cast the column, or leave it out")),
    (("--manifest", "gone.parquet"), ("--manifest gone.parquet: no such file",)),
    (("--manifest", "a.xls"), ("--manifest a.xls: expected a name that ends in .csv, .tsv, .txt, .jsonl or .parquet",)),
]


@pytest.mark.parametrize(("flags", "words"), BAD)
def test_mistakes_are_one_sentence(run: Run, folder: Path, flags: tuple[str, ...], words: tuple[str, ...]) -> None:
    write_files(
        folder,
        {
            "other.csv": b"file_name,label\n1.jpg,a\n",
            "split.csv": b"file_name,split\n1.jpg,x\n",
            "none.csv": b"name,label\n1.jpg,a\n",
            "cut.parquet": (folder / "all.parquet").read_bytes()[:-9],
        },
    )
    pq.write_table(pa.table({"n": [1]}), folder / "none.parquet")
    when = pa.array([1], pa.timestamp("us"))
    pq.write_table(pa.table({"file_name": ["1.jpg"], "when": when}), folder / "odd.parquet")

    check_mistake(run("images", *flags, "--output", "out", "--name", "n"), *words)
    assert not Path("out").exists()


def test_rows_that_are_in_two_manifests(run: Run, folder: Path) -> None:
    """Once in one split; of two splits, that they share it is said."""
    write_files(
        folder,
        {"b.csv": csv_of(ROWS[4:]), "c.csv": csv_of([{**ROWS[5], "age": "x"}, {**ROWS[6], "file_name": "gone.jpg"}])},
    )
    found = made(run, "--manifest", "a.csv,b.csv,c.csv")

    assert [tuple(reject[name] for name in ("source", "manifest", "line", "reason")) for reject in found.rejects()] == [
        ("4.jpg", "b.csv", 2, "duplicate of line 6 in a.csv"),
        ("gone.jpg", "c.csv", 3, "no such file"),
    ]
    assert len(found.records["5.jpg"]) == 2
    split = made(run, "--manifest", "train=a.csv", "--manifest", "test=b.csv")
    said = "1 example of 'test' has equal content in 'train', such as '4.jpg:2' and '4.jpg:6'"
    assert said in split.dataset.manifest.notices


def test_rejects_of_every_stage_say_whose_line_it_is(run: Run, folder: Path) -> None:
    """Of one manifest they need not, and their bytes stay what they were."""
    bad = "file_name,label,age\n1.jpg,a,3\n,b,4\n2.jpg,unknown,5\nnone.jpg,a,6\n"
    write_files(folder, {"c.csv": bad.encode(), "none.jpg": b"no image", "names.txt": b"a\nb\n"})
    flags = ("--labels_file", "names.txt", "--on_new_label", "reject")

    several = made(run, "--manifest", "a.csv,c.csv", *flags).rejects()
    one = made(run, "--manifest", "c.csv", *flags).rejects()

    assert [(reject.pop("manifest"), reject["line"], reject["stage"]) for reject in several] == [
        ("c.csv", 4, "index"),
        ("c.csv", 3, "index"),
        ("c.csv", 5, "write"),
    ]
    assert several == one


def test_metadata_in_every_split_folder_is_used_and_said(run: Run, folder: Path) -> None:
    rows = [{"file_name": f"{n}.jpg", "text": f"é {n}", "label": "ab"[n % 2]} for n in range(6)]
    for split, some in (("train", rows[:4]), ("val", rows[4:])):
        write_files(folder / "hf" / split, {str(row["file_name"]): image(n) for n, row in enumerate(rows)})
        write_files(folder / "hf" / split, {"metadata.jsonl": json_of(some)})

    found = made(run, "--input", "hf")

    assert {split: sorted(names) for split, names in found.splits.items()} == {
        "train": [f"train/{n}.jpg" for n in range(4)],
        "validation": ["val/4.jpg", "val/5.jpg"],
    }
    assert bytes(found.example("val/5.jpg")["text"][0]).decode() == "é 5"
    said = found.dataset.manifest.notices[0]
    assert said.startswith("--input hf: hf/train/metadata.jsonl, hf/val/metadata.jsonl say what its images are")
    assert "those that are not named there are left out" in said
    plain = made(run, "--input", "hf", "--folders", "any")
    assert "text" not in plain.example("val/5.jpg")


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_metadata_of_pairs_is_read_as_hugging_face_reads_it(run: Run, folder: Path, suffix: str) -> None:
    rows = [{"file_name": f"{n}.png", "next_file_name": f"next/{n}.png", "text": f"no {n}"} for n in range(4)]
    pictures = {str(row["file_name"]): encoded(values(n)) for n, row in enumerate(rows)}
    others = {str(row["next_file_name"]): encoded(values(n + 9)) for n, row in enumerate(rows)}
    write_files(folder / "hf", pictures | others)
    content = {"csv": csv_of, "jsonl": json_of}
    if suffix == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), folder / "hf/metadata.parquet")
    else:
        write_files(folder / "hf", {f"metadata.{suffix}": content[suffix](rows)})

    found = made(run, "--input", "hf")

    assert found.records.keys() == {f"{n}.png" for n in range(4)}
    for n in range(4):
        example = found.example(f"{n}.png")
        assert (example["image"][0], example["next"][0]) == (pictures[f"{n}.png"], others[f"next/{n}.png"])
        assert bytes(example["text"][0]).decode() == f"no {n}"
    masked = made(run, "--input", "hf", "--mask_column", "next_file_name")
    (mask,) = [feature for feature in masked.dataset.manifest.features if feature.name == "next"]
    assert mask.kind == "mask"


@pytest.mark.parametrize("first", ["image_uri", "in_file_name"])
def test_metadata_of_pairs_without_a_file_name(run: Run, folder: Path, first: str) -> None:
    rows = [{first: f"{n}.png", "next_file_name": f"next/{n}.png"} for n in range(4)]
    write_files(folder / "hf", {f"{at}{n}.png": encoded(values(n)) for at in ("", "next/") for n in range(4)})
    write_files(folder / "hf", {"metadata.csv": csv_of(rows)})
    if first != "image_uri":
        result = run("images", "--input", folder / "hf", "--output", folder / "out", "--name", "d")
        check_mistake(result, "has no column file_name", "; --file_column in_file_name,next_file_name says that these")

    found = made(run, "--input", "hf", *(() if first == "image_uri" else ("--file_column", f"{first},next_file_name")))

    assert found.records.keys() == {f"{n}.png" for n in range(4)}
    assert "next" in found.example("0.png")


@pytest.mark.parametrize(
    ("files", "sentence", "instead"),
    [
        (  # where all would be of one split
            {"metadata.csv": b"file_name\ntrain/1.jpg\ntest/2.jpg\n", "train/1.jpg": image(1), "test/2.jpg": image(2)},
            "'metadata.csv', which says what the images are…give --manifest…--folders",
            ("in/metadata.csv",),
        ),
        (  # in one of two split folders, beside classes
            {"train/metadata.csv": b"file_name\na/1.jpg\n", "train/a/1.jpg": image(1), "test/a/2.jpg": image(2)},
            "'train/metadata.csv', which says what the images are…give --manifest…--folders",
            (),
        ),
        (
            {"metadata.csv": b"file_name\n1.jpg\n", "metadata.jsonl": b'{"file_name": "1.jpg"}\n', "1.jpg": image(1)},
            "--input in holds 2 files such as 'metadata.csv', which say what the images are: give --manifest"
            " in/metadata.csv, if one of them says it all, or one for each split, as in --manifest train=in/metadata",
            ("in/metadata.csv", "in/metadata.jsonl"),
        ),
    ],
)
def test_metadata_that_lies_otherwise_is_one_sentence(
    jobs: Jobs, files: dict[str, bytes], sentence: str, instead: tuple[str, ...]
) -> None:
    jobs.refuse("images", sentence, files=files)
    for manifest in instead:
        jobs.build(f"images --overwrite --manifest {manifest}")


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_manifests_without_rows_are_named(run: Run, folder: Path, suffix: str) -> None:
    """Of a folder, of one split of two; beside others of its split, one may be empty."""
    write_files(folder / "hf", {"1.jpg": image(1)})
    path, rows = folder / f"hf/metadata.{suffix}", [{"file_name": "1.jpg"}]
    if suffix == "parquet":
        pq.write_table(pa.table({"file_name": pa.array([], pa.string())}), path)
        pq.write_table(pa.Table.from_pylist(rows), folder / f"hf/one.{suffix}")
    else:
        path.write_bytes(b"file_name\n" if suffix == "csv" else b"\n")
        (folder / f"hf/one.{suffix}").write_bytes({"csv": csv_of, "jsonl": json_of}[suffix](rows))
    where = ("--output", "out", "--name", "n")
    empty, full = f"hf/metadata.{suffix}", f"hf/one.{suffix}"

    said = f"--manifest hf/metadata.{suffix} has no rows; expected one for each file"
    check_mistake(run("images", "--input", "hf", *where), said)
    check_mistake(
        run("images", "--manifest", f"train={full}", "--manifest", f"test={empty}", *where),
        f"--manifest test={empty} has no rows; expected one for each file",
    )
    assert made(run, "--manifest", f"{empty},{full}").records.keys() == {"1.jpg"}
