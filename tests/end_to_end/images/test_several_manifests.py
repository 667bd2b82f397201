"""Several manifests, globs and Parquet as manifests, and the metadata files of Hugging Face's image folders."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.command import Contents, image, write_files
from tests.support.jobs import Files, Jobs
from tests.support.masks import encoded, values
from tests.support.table_results import encode_rows, parquet

ROWS = [{"file_name": f"{n}.jpg", "label": "ab"[n % 2], "age": n} for n in range(8)]


@pytest.fixture
def folder(jobs: Jobs) -> Path:
    """Images, and manifests that list all of them, or some; the current folder."""
    files = {f"{n}.jpg": image(n) for n in range(8)} | {"parts/a.csv": b""}
    for name, rows in (("all", ROWS), ("a", ROWS[:5]), ("b", ROWS[5:])):
        files |= {f"{name}.{suffix}": encode_rows(suffix, rows) for suffix in ("csv", "jsonl", "parquet")}
    for name, rows in (("a", ROWS[:5]), ("b", ROWS[5:])):
        moved = [{**row, "file_name": f"../{row['file_name']}"} for row in rows]
        files |= {f"parts/{name}.csv": encode_rows("csv", moved), f"m/{name}.csv": encode_rows("csv", rows)}
        files |= {f"m/{row['file_name']}": image(int(str(row["age"]))) for row in rows}
    return write_files(jobs.folder, files)


def made(jobs: Jobs, flags: str) -> Contents:
    return jobs.build(f"images {flags} --overwrite --max_reject_fraction 0.9").contents


def test_all_ways_give_the_records_of_one_manifest(jobs: Jobs, folder: Path) -> None:
    one = made(jobs, "--manifest all.csv")
    assert len(one.records) == 8
    for named in ("a.csv,b.csv", "a.csv --manifest b.csv", "[ab].csv", "{a,b}.csv", "all.parquet", "a.jsonl,b.jsonl"):
        several = made(jobs, f"--manifest {named}")
        assert several.records == one.records
        assert several.dataset.manifest.features == one.dataset.manifest.features


def test_files_of_other_folders_are_relative_to_each(jobs: Jobs, folder: Path) -> None:
    found = made(jobs, "--manifest m/a.csv --manifest b.csv")
    assert found.records.keys() == {*(f"m/{n}.jpg" for n in range(5)), *(f"{n}.jpg" for n in range(5, 8))}
    outside = made(jobs, "--manifest parts/*.csv --allow_outside")
    assert outside.records.keys() == {f"../{n}.jpg" for n in range(8)}


def test_splits_are_those_of_the_files_and_the_order_that_of_manifests(jobs: Jobs, folder: Path) -> None:
    found = made(jobs, "--manifest train=a.csv --manifest val=b.csv")
    assert {split: sorted(names) for split, names in found.splits.items()} == {
        "train": [f"{n}.jpg" for n in range(5)],
        "validation": [f"{n}.jpg" for n in range(5, 8)],
    }
    (names,) = made(jobs, "--manifest b.csv,a.csv --no_shuffle").splits.values()
    assert names == [f"{n}.jpg" for n in (5, 6, 7, 0, 1, 2, 3, 4)]


def test_a_path_with_an_equals_sign_is_a_path(jobs: Jobs, folder: Path) -> None:
    csv = encode_rows("csv", ROWS)
    write_files(folder, {"day=1/m.csv": b"file_name\n1.jpg\n", "day=1/1.jpg": image(1), "c,d.csv": csv})
    assert made(jobs, "--manifest day=1/m.csv").records.keys() == {"1.jpg"}
    assert len(made(jobs, "--manifest c,d.csv").records) == 8


def test_parquet_keeps_types(jobs: Jobs, folder: Path) -> None:
    rows = [{"file_name": f"{n}.jpg", "v": [n, 1.5], "ok": n % 2 == 0, "text": None if n else "x"} for n in range(4)]
    table = encode_rows("parquet", rows, row_group_size=2)
    write_files(folder, {"m.jsonl": encode_rows("jsonl", rows), "m.parquet": table})
    assert made(jobs, "--manifest m.parquet").records == made(jobs, "--manifest m.jsonl").records


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("gone*.csv", "--manifest gone*.csv: no file matches"),
        ("a.csv,a.csv", "--manifest: the file a.csv is there twice"),
        ("a.csv,b.jsonl", "a.csv and b.jsonl are of formats"),
        ("train=a.csv --manifest b.csv", "some files have a split and others not"),
        ("a.csv,other.csv", "a.csv has a column 'age', which other.csv has not"),
        ("train=a.csv --manifest test=b.csv --splits train=1", "--manifest, by file, says the"),
        ("train=split.csv", "--manifest train=split.csv: line 2 has a split of its own, 'x'"),
        ("gone.parquet", "--manifest gone.parquet: no such file"),
        ("odd.parquet", "column 'of' is struct<"),
    ],
)
def test_mistakes_are_one_sentence(jobs: Jobs, folder: Path, flags: str, said: str) -> None:
    files = {"other.csv": b"file_name,label\n1.jpg,a\n", "split.csv": b"file_name,split\n1.jpg,x\n"}
    write_files(folder, files)
    pq.write_table(pa.table({"file_name": ["1.jpg"], "of": [{"x": 1}]}), folder / "odd.parquet")

    jobs.refuse(f"images --manifest {flags}", said)


def test_rows_that_are_in_two_manifests(jobs: Jobs, folder: Path) -> None:
    """Once in one split; of two splits, that they share it is said."""
    others = [{**ROWS[5], "age": "x"}, {**ROWS[6], "file_name": "gone.jpg"}]
    write_files(folder, {"b.csv": encode_rows("csv", ROWS[4:]), "c.csv": encode_rows("csv", others)})
    found = made(jobs, "--manifest a.csv,b.csv,c.csv")

    assert [tuple(reject[name] for name in ("source", "manifest", "line", "reason")) for reject in found.rejects()] == [
        ("4.jpg", "b.csv", 2, "duplicate of line 6 in a.csv"),
        ("gone.jpg", "c.csv", 3, "no such file"),
    ]
    assert len(found.records["5.jpg"]) == 2
    split = made(jobs, "--manifest train=a.csv --manifest test=b.csv")
    said = "1 example of 'test' has equal content in 'train', such as '4.jpg:2' and '4.jpg:6'"
    assert said in split.dataset.manifest.notices


def test_rejects_of_every_stage_say_whose_line_it_is(jobs: Jobs, folder: Path) -> None:
    """Of one manifest they need not, and their bytes stay what they were."""
    bad = b"file_name,label,age\n1.jpg,a,3\n,b,4\n2.jpg,unknown,5\nnone.jpg,a,6\n"
    write_files(folder, {"c.csv": bad, "none.jpg": b"no image", "names.txt": b"a\nb\n"})
    flags = "--labels_file names.txt --on_new_label reject"

    several = made(jobs, f"--manifest a.csv,c.csv {flags}").rejects()
    one = made(jobs, f"--manifest c.csv {flags}").rejects()

    assert [(reject.pop("manifest"), reject["line"], reject["stage"]) for reject in several] == [
        ("c.csv", 4, "index"),
        ("c.csv", 3, "index"),
        ("c.csv", 5, "write"),
    ]
    assert several == one


def test_metadata_in_every_split_folder_is_used_and_said(jobs: Jobs) -> None:
    rows = [{"file_name": f"{n}.jpg", "text": f"é {n}", "label": "ab"[n % 2]} for n in range(6)]
    for split, some in (("train", rows[:4]), ("val", rows[4:])):
        jobs.write({f"{split}/{row['file_name']}": image(n) for n, row in enumerate(rows)})
        jobs.write({f"{split}/metadata.jsonl": encode_rows("jsonl", some)})

    found = made(jobs, "--input in")

    assert {split: sorted(names) for split, names in found.splits.items()} == {
        "train": [f"train/{n}.jpg" for n in range(4)],
        "validation": ["val/4.jpg", "val/5.jpg"],
    }
    assert bytes(found.example("val/5.jpg")["text"][0]).decode() == "é 5"
    said = found.dataset.manifest.notices[0]
    assert said.startswith("--input in: in/train/metadata.jsonl, in/val/metadata.jsonl say what its images are")
    assert "6 files that its metadata does not name are left out, such as 'train/4.jpg'" in str(
        found.dataset.manifest.notices
    )


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_metadata_of_pairs_is_read_as_hugging_face_reads_it(jobs: Jobs, suffix: str) -> None:
    rows = [{"file_name": f"{n}.png", "next_file_name": f"next/{n}.png", "text": f"no {n}"} for n in range(4)]
    pictures = {f"{n}.png": encoded(values(n)) for n in range(4)}
    others = {f"next/{n}.png": encoded(values(n + 9)) for n in range(4)}
    jobs.write(pictures | others | {f"metadata.{suffix}": encode_rows(suffix, rows)})

    found = made(jobs, "--input in")

    assert found.records.keys() == {f"{n}.png" for n in range(4)}
    for n in range(4):
        example = found.example(f"{n}.png")
        assert (example["image"][0], example["next"][0]) == (pictures[f"{n}.png"], others[f"next/{n}.png"])
        assert bytes(example["text"][0]).decode() == f"no {n}"
    masked = made(jobs, "--input in --mask_column next_file_name")
    (mask,) = [feature for feature in masked.dataset.manifest.features if feature.name == "next"]
    assert mask.kind == "mask"


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_the_column_whose_files_exist_is_named(jobs: Jobs, suffix: str) -> None:
    rows = [{"n": n, "site": "a.org", "the path": f"{n}.jpg", "next": f"{n}.jpg"} for n in range(2)]
    jobs.write({f"{n}.jpg": image(n) for n in range(2)} | {f"two.{suffix}": encode_rows(suffix, rows)})
    jobs.write({f"one.{suffix}": encode_rows(suffix, [{**row, "next": "gone.jpg"} for row in rows])})
    for name, flag in (("one", "--file_column 'the path'"), ("two", "--file_column 'the path,next'")):
        command = f"images --manifest in/{name}.{suffix} --name {name}"
        jobs.refuse(command, f"file_name or image_uri…; {flag} ")
        assert jobs.build(f"{command} {flag}").splits == {"train": 2}


@pytest.mark.parametrize("first", ["image_uri", "in_file_name"])
def test_metadata_of_pairs_without_a_file_name(jobs: Jobs, first: str) -> None:
    rows = [{first: f"{n}.png", "next_file_name": f"next/{n}.png"} for n in range(4)]
    jobs.write({f"{at}{n}.png": encoded(values(n)) for at in ("", "next/") for n in range(4)})
    jobs.write({"metadata.csv": encode_rows("csv", rows)})

    found = made(jobs, "--input in" if first == "image_uri" else f"--input in --file_column {first},next_file_name")

    assert found.records.keys() == {f"{n}.png" for n in range(4)}
    assert "next" in found.example("0.png")


@pytest.mark.parametrize(
    ("files", "sentence", "instead"),
    [
        (  # where all would be of one split
            {"metadata.csv": b"file_name\ntrain/1.jpg\ntest/2.jpg\n", "train/1.jpg": image(1), "test/2.jpg": image(2)},
            "1 .csv file, such as 'metadata.csv', which are no images; give --manifest in/metadata.csv…--exclude",
            ("in/metadata.csv",),
        ),
        (  # in one of two split folders, beside classes
            {"train/metadata.csv": b"file_name\na/1.jpg\n", "train/a/1.jpg": image(1), "test/a/2.jpg": image(2)},
            "'train/metadata.csv', which are no images; give --manifest in/train/metadata.csv…--exclude '*.csv'",
            (),
        ),
        (
            {"metadata.csv": b"file_name\n1.jpg\n", "metadata.jsonl": b'{"file_name": "1.jpg"}\n', "1.jpg": image(1)},
            "give --manifest in/metadata.csv or --manifest in/metadata.jsonl in place of --input",
            ("in/metadata.csv", "in/metadata.jsonl"),
        ),
    ],
)
def test_metadata_that_lies_otherwise_is_one_sentence(
    jobs: Jobs, files: Files, sentence: str, instead: tuple[str, ...]
) -> None:
    jobs.refuse("images", sentence, files=files)
    for manifest in instead:
        jobs.build(f"images --overwrite --manifest {manifest}")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_manifests_without_rows_are_named(jobs: Jobs, suffix: str) -> None:
    """Of a folder, of one split of two; beside others of its split, one may be empty."""
    empty, full = f"in/metadata.{suffix}", f"in/one.{suffix}"
    nothing = pa.table({"file_name": pa.array([], pa.string())})
    content = {"csv": b"file_name\n", "parquet": parquet(nothing)}[suffix]
    files = {"1.jpg": image(1), f"metadata.{suffix}": content}
    files[f"one.{suffix}"] = encode_rows(suffix, [{"file_name": "1.jpg"}])

    said = "has no rows; expected one for each file"
    jobs.refuse("images", f"--manifest {empty} {said}", files=files)
    jobs.refuse(f"images --manifest train={full} --manifest test={empty}", f"--manifest test={empty} {said}")
    assert made(jobs, f"--manifest {empty},{full}").records.keys() == {"1.jpg"}
