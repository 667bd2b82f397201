"""Tests of page.py: compiled templates, the page of a version, and the images on it."""

import re
import shutil
import sys
from dataclasses import replace
from html.parser import HTMLParser
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

import pytest
from jinja2 import DictLoader, Environment

from shardmill.addons.reports import page
from shardmill.addons.reports import page as compiled
from shardmill.addons.reports.contact_sheet import SIDE, thumbnail
from shardmill.addons.reports.content import ReportSources, read_sources, report_content, run_default_checks
from shardmill.addons.reports.page import MAX_BYTES, clip_name, keep_templates, render_page, with_page_checks
from shardmill.addons.reports.pictures import (
    CLASSES,
    OF_A_CLASS,
    Picture,
    Pictures,
    choose_evenly_spaced,
    find_pictures,
)
from shardmill.addons.reports.rows import picture_rows
from shardmill.data.features import Feature
from shardmill.metadata.manifest import Manifest, ShardEntry, SplitEntry
from shardmill.metadata.versions import BuildRecord
from shardmill.quality.limits import CheckResult
from shardmill.quality.profile import Profile
from shardmill.quality.stats_file import FeatureSummary, SplitSummary, StatsFile
from shardmill.quality.stats_values import Bucket, Distinct, Numbers, TopValue
from shardmill.reading.dataset import open_dataset
from tests.support.command import Run, image, write_files
from tests.support.reading import make


class Counting(Environment):
    compiled = 0

    def _generate(self, *args: object, **named: object) -> str:
        Counting.compiled += 1
        return super()._generate(*args, **named)  # type: ignore[arg-type]


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    folder = Path(cache_from_source(compiled.__file__)).parent
    folder.mkdir(parents=True)
    Counting.compiled = 0
    return folder


def rendered(text: str) -> str:
    environment = Counting(loader=DictLoader({"page": text}), bytecode_cache=keep_templates())
    return environment.get_template("page").render(number=3)


def test_once_for_each_text(kept: Path) -> None:
    assert [rendered("{{ number }}"), rendered("{{ number }}"), rendered("{{ number + 1 }}")] == ["3", "3", "4"]
    assert Counting.compiled == 2
    assert len(list(kept.iterdir())) == 1


def test_without_a_folder_that_can_be_written_to(kept: Path) -> None:
    kept.rmdir()
    kept.write_bytes(b"")  # as within an archive

    assert [rendered("{{ number }}"), rendered("{{ number }}")] == ["3", "3"]
    assert Counting.compiled == 2


def test_nothing_is_kept_where_python_is_told_to_keep_nothing(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "dont_write_bytecode", True)
        assert rendered("{{ number }}") == "3"
        assert not list(kept.iterdir())

    page._make_environment.cache_clear()
    assert page._make_environment(60).get_template("page") is page._make_environment(60).get_template("page")
    assert list(kept.iterdir())


HOSTILE = "<script>alert(1)</script>\" onload='x' {{ 7 * 7 }} \u202e\x1b[31m"
NUMBERS = Numbers(
    minimum=-1.5,
    maximum=1_234_567.0,
    mean=2.0,
    std_dev=1.0,
    zeros=100,
    quantiles={"0.05": 0.25, "0.5": 1.0, "0.95": 10_000.4},
    histogram=tuple(Bucket(float(low), low + 1.0, 40 + 7 * low % 11) for low in range(32)),
)


def profile(features: dict[str, tuple[Feature, FeatureSummary]], version: str = "1.0.1", rejected: int = 0) -> Profile:
    """Two splits, of 4,000 and 1,000 examples, in which the features are the same."""
    sizes = {"train": 4_000, "test": 1_000}
    splits = tuple(
        SplitEntry(split, (ShardEntry(f"n-{split}.tfrecord-00000-of-00001", n, 100 * n, "0" * 8),))
        for split, n in sizes.items()
    )
    records = {"pattern": "rows.csv", "records": 5_000 + rejected}
    of = tuple(feature for feature, _ in features.values())
    rejects = {"records": rejected, "reasons": {}}
    manifest = Manifest("n", version, "", of, splits, input=records, rejects=rejects)
    summaries = {name: summary for name, (_, summary) in features.items()}
    return Profile(
        manifest, StatsFile({split: SplitSummary(n, 100 * n, 0, features=summaries) for split, n in sizes.items()})
    )


def columns(names: list[str]) -> dict[str, tuple[Feature, FeatureSummary]]:
    """Numbers with a long histogram, and strings."""
    numbers = FeatureSummary(count=3_900, missing=100, distinct=Distinct(3_123, 0.03), numbers=NUMBERS)
    top = tuple(TopValue(f"a value of some length {n}", 100 - n) for n in range(20))
    strings = FeatureSummary(count=4_000, missing=0, distinct=Distinct(20), top_values=top)
    return {
        name: (Feature(name, "float32"), numbers) if index % 2 else (Feature(name, "bytes", "text"), strings)
        for index, name in enumerate(names)
    }


def label(number: int) -> dict[str, tuple[Feature, FeatureSummary]]:
    """A label of so many classes, each rarer than the one before it; the last has no example."""
    names = tuple(f"class {n}" for n in range(number))
    counts = {name: number - 1 - index for index, name in enumerate(names)}
    return {"label": (Feature("label", "int64", "class_label", class_names=names), FeatureSummary(classes=counts))}


def sources(of: Profile, **changed: Any) -> ReportSources:
    return replace(ReportSources(of, None, "Nothing to compare with.", [], "Checked now.", None), **changed)


def shown(of: ReportSources) -> str:
    """The page."""
    return render_page(report_content(of), of)


class Tags(HTMLParser):
    """The tags and the attributes of a page, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def hostile() -> str:
    """Everything that comes from data is a hostile name."""
    named = {HOSTILE: (Feature(HOSTILE, "bytes", "text"), FeatureSummary(top_values=(TopValue(HOSTILE, 3),)))}
    classes = {"label": (Feature(HOSTILE, "int64", "class_label", class_names=(HOSTILE,)), FeatureSummary())}
    made = profile({**named, **classes}, rejected=1)
    of_label = {**made.stats.splits["train"].features, HOSTILE: FeatureSummary(classes={HOSTILE: 4_000})}
    train, test = SplitSummary(4_000, 1, 0, features=of_label), SplitSummary(1_000, 1, 0, features={})
    changes: dict[str, Any] = {"input": {"pattern": HOSTILE, "records": 5_001}, "configuration": {HOSTILE: HOSTILE}}
    of = Profile(replace(made.manifest, **changes, notices=(HOSTILE,)), StatsFile({"train": train, "test": test}))
    found = CheckResult("drift", "warn", HOSTILE, feature=HOSTILE, split=HOSTILE)
    reject = '{"source": "<script>alert(1)</script>.png", "line": null, "stage": "write", "reason": "<b>bad</b>"}'
    return shown(sources(of, results=[found], no_baseline=HOSTILE, checked=HOSTILE, rejects=[reject]))


def test_hostile_names_are_inert(hostile: str) -> None:
    tags = Tags(hostile)

    assert not {"script", "b", "img", "iframe", "link", "object"} & set(tags.tags)
    assert not [name for name, _ in tags.attributes if name.startswith("on")]
    assert "<script>alert(1)</script>" in tags.text  # as text
    assert "{{ 7 * 7 }}" in tags.text
    assert not re.search("[\u202e\x1b]", hostile)
    # Nothing comes from elsewhere
    assert not [one for one in tags.attributes if one[0] in ("src", "action", "data", "srcset")]
    assert all(str(value).startswith("#") for name, value in tags.attributes if name == "href")
    assert not re.search(r"url\(|@import", hostile)
    policy = hostile.split('Content-Security-Policy" content="')[1]
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:;")


def test_lines_break_between_the_words_of_a_feature_s_name_and_values_stay_where_they_are() -> None:
    """Values from the right to the left, too."""
    name = "non_<b>_phenols"
    top = (TopValue("\u05e9\u05dc\u05d5\u05dd", 3_000), TopValue("ascii", 1_000))
    texts = FeatureSummary(count=4_000, missing=0, top_values=top)
    text = shown(sources(profile({name: (Feature(name, "bytes", "text"), texts)})))

    assert "non_<wbr>&lt;b&gt;_<wbr>phenols" in text
    assert "<bdi>\u05e9\u05dc\u05d5\u05dd</bdi> " in text
    assert "<bdi>ascii" not in text


def test_every_share_of_a_feature_has_a_bar() -> None:
    text = shown(sources(profile(columns(["words", "numbers"]))))
    shares = re.findall(r"<div([^>]*)>(?:[^<]*<span class=.dim.>[\d,]+, )?([\d.]+) %<", text)

    assert {percent for _, percent in shares} >= {"2.4", "2.5", "2.6"}
    assert text.count(" %</") > len(shares) >= 9
    assert all(attributes == f' class="s" style="--s:{percent}%"' for attributes, percent in shares)


def test_figures() -> None:
    one, other = (shown(sources(profile({**columns(["a", "b"]), **label(3)}))) for _ in range(2))
    text = Tags(one).text

    assert one == other
    for key, figure in (("examples", "5,000"), ("features", "3"), ("size", "500.0 kB")):
        assert f"<dt>{key}</dt><dd>{figure}</dd>" in one
    assert "a value of some length 0" in text
    for said in ("~3,123", "1,234,567", "-1.5", "0.25", "10,000", "2.5 %"):
        assert said in text
    assert one.count("<svg") == one.count('role="img" aria-label="distribution of ') == 3  # charts have words


def test_notices_of_the_build_are_shown_once() -> None:
    """Which the manifest has not: of what `--reuse` found damaged, say."""
    record = BuildRecord("n", "1.0.0", "published", "2026-11-20T03:00:00Z", notices=("one", "two"))
    made = profile(label(2))
    of = Profile(replace(made.manifest, notices=("one",)), made.stats)

    assert report_content(sources(of, record=record))["made"]["notices"] == ["one", "two"]


def test_two_thousand_columns_and_a_thousand_classes() -> None:
    names = [f"column {n} ".ljust(500, "ü") for n in range(2_000)]
    of = sources(profile({**columns(names), **label(1_000)}))
    found, text = report_content(of), shown(of)

    assert len(text.encode()) <= MAX_BYTES
    assert "column 0 " in text
    assert "column 299 " in text
    assert len(found["features"]) == 2_001
    left_out = re.search(r"([\d,]+) more features are left out", text)
    assert left_out is not None
    assert text.count('<tr><th scope="row">column ') + int(left_out[1].replace(",", "")) == 2_001


def test_over_fifty_classes_the_ends_are_shown() -> None:
    found = profile(label(1_000))
    html = shown(sources(found))
    text = Tags(html).text

    assert "1,000 classes" in text
    assert re.findall(r'<th scope="row">class (\d+)<', html) == [str(n) for n in [*range(25), *range(975, 1_000)]]
    assert "950 classes between" in text
    assert "1 without an example in train: class 999" in text
    assert "classes between" not in shown(sources(profile(label(50))))

    objects = tuple(replace(feature, sequence="objects") for feature in found.manifest.features)
    text = Tags(shown(sources(replace(found, manifest=replace(found.manifest, features=objects))))).text
    assert " objects each." in text
    assert "1 without an object in train: class 999" in text


def test_rejects_have_three_names_a_reason() -> None:
    lines = [f'{{"source": "{n}.png", "line": {n or "null"}, "stage": "write", "reason": "empty"}}' for n in range(5)]
    of = sources(profile(columns(["a"]), rejected=5), rejects=lines)
    reasons = [{"reason": "empty", "records": 5, "names": ["0.png", "1.png:1", "2.png:2"]}]

    rejects = {"records": 5, "of_no_split": 5, "read": 5_005, "reasons": reasons}
    assert report_content(of)["rejects"] == rejects
    assert "2.png:2" in shown(of)
    assert "3.png" not in shown(of)
    assert '<th scope="row">(no split)</th>' in shown(of)
    assert "(no split)" not in shown(sources(profile(columns(["a"]))))


def test_what_changed() -> None:
    old, new = profile(columns(["a", "b"]), "1.0.0"), profile(columns(["a", "c"]))
    of = sources(new, baseline=old)
    changes = report_content(of)["changes"]

    assert changes["against"] == "1.0.0"
    assert [one["words"] for one in changes["differences"]] == ["column b gone", "column c new"]
    assert "column b gone" in shown(of)
    assert "Nothing to compare with." in shown(sources(new))


def test_the_page_s_checks_compare_the_version_with_the_one_before_it() -> None:
    record = BuildRecord("n", "1.0.1", "published", "2026-11-20T03:00:00Z")
    old, new = profile(label(3), "1.0.0"), profile(label(4))

    for previous in (None, old):
        checks = [result.to_json() for result in run_default_checks(new, previous)]
        assert list(with_page_checks(record, new, previous).page_checks) == checks != []
    assert with_page_checks(record, None, old) is record


def test_images_are_named_by_split_class_and_file() -> None:
    of = sources(profile(label(3)), pictures=Pictures(classes=(("cat", (Picture(b"", "cat", "a.jpg", "test"),)),)))

    images = [{"split": "test", "class": "cat", "file": "a.jpg"}]
    assert report_content(of)["pictures"]["classes"] == [{"class": "cat", "images": images}]


def test_the_verdict_is_the_worst_check() -> None:
    moved = CheckResult("drift", "error", "it moved", feature="a")
    of = sources(profile(columns(["a"])), results=[CheckResult("rejects", "ok", "0 of 5"), moved])
    found = report_content(of)

    assert (found["verdict"]["severity"], found["verdict"]["words"]) == ("error", "bad")
    text = Tags(shown(of)).text
    assert "it moved" in text
    assert "0 of 5" not in text
    assert "1 of 2 checks found nothing" in text

    many = [CheckResult("skew", "unknown", "nobody knows")] * 500 + [moved]
    text = Tags(shown(replace(of, results=many))).text
    assert text.index("it moved") < text.index("nobody knows")
    assert "0 of 501 checks found nothing, and 500 could not be made" in text


def test_clip() -> None:
    assert (clip_name("abc", 3), clip_name("abcd", 3), clip_name("\x1b", 9)) == ("abc", "ab…", "\\x1b")
    assert (clip_name("abcdefgh", 8, 2), clip_name("abcdefghi", 8, 2)) == ("abcdefgh", "abcde…hi")


def test_the_figures_of_the_other_splits() -> None:
    of = profile(columns(["a", "b"]))
    other = replace(of.stats.splits["test"].features["b"], numbers=replace(NUMBERS, maximum=77.5), missing=0)
    test = replace(of.stats.splits["test"], features={"b": other})
    html = shown(sources(replace(of, stats=StatsFile({**of.stats.splits, "test": test}))))

    assert "<div>train</div><div>test</div>" in html
    assert "<div>1,234,567</div><div>77.5</div>" in html
    assert ">2.5 %</div><div>none</div>" in html


SIZES = {"cat/long.jpg": (300, 20), "dog/tiny.jpg": (3, 4), "dog/large.jpg": (200, 180)}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images of three classes in two splits, each of two shards; the version before the last is compressed."""
    folder = tmp_path_factory.mktemp("pets")
    names = [f"{label}/{n}.jpg" for label in ("cat", "dog", "emu") for n in range(16)]
    files = {name: image(seed, "JPEG", (60, 50)) for seed, name in enumerate(names)}
    files |= {name: image(100, "JPEG", size) for name, size in SIZES.items()}
    source = write_files(folder / "in", files)
    for version, flags in (("1.0.0", ["--compression", "gzip"]), ("1.0.1", [])):
        splits = ("--splits", "train=0.7,test=0.3", "--num_shards", 2)
        make("images", source, folder, *splits, "--version", version, *flags)
    return folder / "n"


def pictures(directory: Path) -> Pictures:
    dataset = open_dataset(directory)
    return find_pictures(dataset, Profile(dataset.manifest, dataset.stats()))


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


@pytest.mark.parametrize("version", ["1.0.0", "1.0.1"])
def test_every_class_is_shown_of_every_split(built: Path, version: str) -> None:
    found = pictures(built / version)
    compressed = "The extreme ones are in compressed shards, where no record is found by its place."

    assert [name for name, _ in found.classes] == ["cat", "dog", "emu"]
    for name, shown in found.classes:
        assert {picture.split for picture in shown} == {"train", "test"}
        assert {picture.file.split("/")[0] for picture in shown} == {picture.label for picture in shown} == {name}
    assert [len(shown) for _, shown in found.classes] == [OF_A_CLASS] * 3
    assert found == pictures(built / version)
    assert found.notes == ((compressed,) if version == "1.0.0" else ())
    assert bool(found.extremes) is (version == "1.0.1")


def test_the_extreme_ones_are_found_by_their_place(built: Path) -> None:
    extremes = dict(pictures(built / "1.0.1").extremes)

    files = [extremes[what][0].file for what in ("smallest", "largest", "most elongated")]
    assert files == ["dog/tiny.jpg", "dog/large.jpg", "cat/long.jpg"]
    small = thumbnail(extremes["largest"][0].image)
    assert (small.width, small.height, small.shown_width) == (200, 180, SIDE)


def test_the_page_of_the_build_has_them(built: Path) -> None:
    text = (built / "builds/1.0.1.html").read_text()

    images = re.findall(r'<img src="data:image/(?:jpeg|png);base64,[\w+/=]+" alt="([^"]+)"', text)
    assert len(images) == 12 + 18
    assert "dog, dog/large.jpg in " in "".join(images)
    assert all("pixels" in words for words in images)


def test_small_images_stay_pixels_and_what_does_not_decode_is_said() -> None:
    small = thumbnail(image(1, "PNG", (8, 6)))
    (row,) = picture_rows(Pictures(classes=(("cat", (Picture(b"no", "cat", "a.jpg", "train"),)),)))[1]

    assert (small.shown_width, small.shown_height, small.is_crisp) == (SIDE, 72, True)
    assert small.source.startswith("data:image/png;base64,")
    assert (row["title"], row["images"][0]["source"], row["images"][0]["instead"]) == ("cat", "", "does not decode")


def test_no_more_than_there_is_room_for() -> None:
    noise = tuple(Picture(image(n, "JPEG", (96, 96)), "a", f"{n}.jpg", "train") for n in range(200))
    (row,) = picture_rows(Pictures(classes=(("a", noise),)))[1]

    assert 100_000 < sum(len(one["source"]) for one in row["images"]) <= 900_000
    assert row["images"][-1]["instead"] == "no room on this page"
    assert choose_evenly_spaced(range(1_000), CLASSES)[:3] == [0, 41, 83]


def test_tables_have_none(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a\n1\n")
    directory = make("csv", tmp_path / "rows.csv", tmp_path)

    assert read_sources(open_dataset(directory), None).pictures == Pictures()
    assert '<h2 id="images">' not in (directory.parent / "builds/1.0.0.html").read_text()
