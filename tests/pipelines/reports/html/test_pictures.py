"""The images on a page: some of each class, the extreme ones, small and in the page itself."""

import re
import shutil
from pathlib import Path

import pytest

from shardmill.pipelines.cli import main
from shardmill.pipelines.reports.contact_sheet import SIDE, thumbnail
from shardmill.pipelines.reports.content import read_sources
from shardmill.pipelines.reports.pictures import CLASSES, Picture, Pictures, evenly_spaced, find_pictures
from shardmill.pipelines.reports.rows import picture_rows
from shardmill.quality.profile import Profile
from shardmill.reading.dataset import open_dataset
from tests.support.command import Run, image, write_files

SIZES = {"cat/long.jpg": (300, 20), "dog/tiny.jpg": (3, 4), "dog/large.jpg": (200, 180)}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images of three classes in two splits, each of two shards; the version before the last is compressed."""
    folder = tmp_path_factory.mktemp("pets")
    names = [f"{label}/{n}.jpg" for label in ("cat", "dog", "emu") for n in range(16)]
    files = {name: image(seed, "JPEG", (60, 50)) for seed, name in enumerate(names)}
    files |= {name: image(100, "JPEG", size) for name, size in SIZES.items()}
    write_files(folder / "in", files)
    arguments = ["images", "--input", str(folder / "in"), "--output", str(folder), "--name", "n", "--num_shards", "2"]
    for version, flags in (("1.0.0", ["--compression", "gzip"]), ("1.0.1", [])):
        assert main([*arguments, "--splits", "train=0.7,test=0.3", "--version", version, *flags]) == 0
    return folder / "n"


def pictures(directory: Path) -> Pictures:
    dataset = open_dataset(directory)
    return find_pictures(dataset, Profile(dataset.manifest, dataset.stats()))


def test_every_class_is_shown_of_every_split(built: Path) -> None:
    found = pictures(built / "1.0.1")

    assert [name for name, _ in found.classes] == ["cat", "dog", "emu"]
    for name, shown in found.classes:
        assert {picture.split for picture in shown} == {"train", "test"}
        assert {picture.file.split("/")[0] for picture in shown} == {picture.label for picture in shown} == {name}
    assert found == pictures(built / "1.0.1")
    assert found.notes == ()


def test_the_extreme_ones_are_found_by_their_place(built: Path) -> None:
    extremes = dict(pictures(built / "1.0.1").extremes)

    assert [extremes[what][0].file for what in ("smallest", "largest", "most elongated")] == [
        "dog/tiny.jpg",
        "dog/large.jpg",
        "cat/long.jpg",
    ]
    small = thumbnail(extremes["largest"][0].image)
    assert (small.width, small.height, small.shown_width) == (200, 180, SIDE)


def test_compressed_shards(built: Path) -> None:
    found = pictures(built / "1.0.0")

    assert [name for name, _ in found.classes] == ["cat", "dog", "emu"]
    assert found.extremes == ()
    assert found.notes == ("The extreme ones are in compressed shards, where no record is found by its place.",)


def test_a_damaged_shard_is_named_on_the_page(built: Path, tmp_path: Path, run: Run) -> None:
    parent = Path(shutil.copytree(built, tmp_path / "n"))
    for shard in parent.glob("1.0.1/*train*"):
        shard.write_bytes(shard.read_bytes()[:40] + b"damage" + shard.read_bytes()[46:])
    next(parent.glob("1.0.1/*test*-00000-*")).unlink()

    assert run("report", parent, "--output", tmp_path / "page.html").status == 0
    text = (tmp_path / "page.html").read_text()
    assert text.count("cannot be read: ") >= 3
    assert "n-test.tfrecord-00000-of-00002 is missing" in text
    assert 'class="badge error">bad<' in text
    assert "shards are not what was written: " in text
    assert "fails its checksum)" in text
    assert ">cannot be read</div>" in text
    assert "does not decode" not in text
    assert text.rstrip().endswith("</html>")
    assert '<img src="data:image/' in text  # of the shard that is whole


def test_the_page_of_the_build_has_them(built: Path) -> None:
    text = (built / "builds/1.0.1.html").read_text()

    images = re.findall(r'<img src="data:image/(?:jpeg|png);base64,[\w+/=]+" alt="([^"]+)"', text)
    assert len(images) == 12 + 18
    assert "dog, dog/large.jpg in " in "".join(images)
    assert all("pixels" in words for words in images)


def test_small_images_stay_pixels() -> None:
    small = thumbnail(image(1, "PNG", (8, 6)))

    assert (small.shown_width, small.shown_height, small.is_crisp) == (SIDE, 72, True)
    assert small.source.startswith("data:image/png;base64,")


def test_what_does_not_decode_is_said() -> None:
    (row,) = picture_rows(Pictures(classes=(("cat", (Picture(b"no", "cat", "a.jpg", "train"),)),))).others

    assert (row["title"], row["images"][0]["source"], row["images"][0]["instead"]) == ("cat", "", "does not decode")


def test_no_more_than_there_is_room_for() -> None:
    noise = tuple(Picture(image(n, "JPEG", (96, 96)), "a", f"{n}.jpg", "train") for n in range(200))
    (row,) = picture_rows(Pictures(classes=(("a", noise),))).others
    sources = [one["source"] for one in row["images"]]

    assert 100_000 < sum(map(len, sources)) <= 450_000
    assert row["images"][-1]["instead"] == "no room on this page"


def test_at_most_so_many_classes() -> None:
    assert evenly_spaced(range(1_000), CLASSES)[:3] == [0, 41, 83]


def test_tables_have_none(tmp_path: Path, run: Run) -> None:
    (tmp_path / "rows.csv").write_text("a\n1\n")
    assert run("csv", "--input", tmp_path / "rows.csv", "--output", tmp_path, "--name", "t").status == 0

    assert read_sources(open_dataset(tmp_path / "t"), None).pictures == Pictures()
    assert "<h2>Images</h2>" not in (tmp_path / "t/builds/1.0.0.html").read_text()
