"""What --transform cannot follow: one sentence, status 2, or 1 where only examples say so, and nothing published."""

from pathlib import Path

import pytest

from tests.support.command import Run

ROWS = "age,city,same,gap,label\n" + "".join(
    f"{20 + row},{'Rome' if row % 3 else 'Oslo'},7,{'' if row % 2 else row},{'ab'[row % 2]}\n" for row in range(40)
)


def refused(
    run: Run, tmp_path: Path, transform: str, *flags: object, rows: str = ROWS, source: str = "rows.csv"
) -> tuple[int, str]:
    """How the command ends, and its one sentence."""
    (tmp_path / "rows.csv").write_text(rows)
    (tmp_path / "t.yaml").write_text(transform)
    given = ("csv", "--input", tmp_path / source, "--output", tmp_path / "out", "--name", "rows", *flags)
    transformed = () if "--transform" in flags else ("--transform", tmp_path / "t.yaml")
    result = run(*given, *transformed, "--quiet")
    written = [path for path in (tmp_path / "out").rglob("*") if path.is_file() and "builds" not in path.parts]
    assert written == []
    assert "Traceback" not in result.err
    return result.status, result.err


SPLITS = ("--splits", "fit=0.8,test=0.2")
MISTAKES: list[tuple[str, tuple[str, ...], int, str]] = [
    ("age: z_scor", (), 2, "t.yaml line 1: feature 'age': unknown step 'z_scor'; did you mean z_score?"),
    ("# heights\nhight: z_score", (), 2, "t.yaml line 2: feature 'hight' is not there; expected one of age, city"),
    ("city: z_score", (), 2, "t.yaml line 1: feature 'city': z_score takes numbers, and the values are bytes"),
    ("age: {log1p: true, vocabulary: {top_k: 3}}", (), 2, "a vocabulary takes texts or int64"),
    (
        "age: z_score\ncity: {vocabulary: {top_k: none}}",
        (),
        2,
        "t.yaml line 2: feature 'city': vocabulary: top_k: 'none'",
    ),
    ("city: !!python/name:os.system", (), 2, "tags are not supported"),
    ("same: z_score", (), 1, "t.yaml line 1: feature 'same': z_score: all 40 values are 7, which cannot be scaled"),
    ("same: scale_0_1", (), 1, "min_max: all 40 values are 7"),
    ("city: {vocabulary: {frequency_threshold: 99}}", (), 1, "none of 2 values is a vocabulary's entry"),
    (
        "age: z_score",
        SPLITS,
        2,
        "there is no split 'train' to compute constants from; the splits are fit, test; --analyze_splits",
    ),
    ("same: z_score", (*SPLITS, "--analyze_splits", "fit,test"), 1, "all 40 values are 7"),
    ("age: z_score", ("--transform", "none.yaml"), 2, "none.yaml: No such file or directory"),
]


@pytest.mark.parametrize(("transform", "flags", "status", "sentence"), MISTAKES)
def test_a_mistake(
    run: Run, tmp_path: Path, transform: str, flags: tuple[str, ...], status: int, sentence: str
) -> None:
    ended, said = refused(run, tmp_path, transform, *flags)
    assert (ended, sentence in said) == (status, True), said


def test_a_feature_without_a_value_in_the_training_split(run: Run, tmp_path: Path) -> None:
    rows = {"train": "x,y\n" + ",1\n" * 9, "test": "x,y\n" + "1,1\n2,1\n" * 9}
    for split, text in rows.items():
        (tmp_path / "rows" / split).mkdir(parents=True)
        (tmp_path / "rows" / split / "a.csv").write_text(text)

    status, said = refused(run, tmp_path, "x: z_score", source="rows")

    assert status == 1
    assert "feature 'x': z_score: no example of the analyzed splits has a value" in said


def test_an_empty_training_split(run: Run, tmp_path: Path) -> None:
    few = "".join(line + "\n" for line in ROWS.splitlines()[:3])

    status, said = refused(run, tmp_path, "age: z_score", "--splits", "train=0.005,test=0.995", rows=few)

    assert status == 1
    assert "no example is in split 'train', from which constants are computed; splits with examples are test" in said


def test_splits_to_analyze_need_a_transform(run: Run, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(ROWS)
    given = ("csv", "--input", tmp_path / "rows.csv", "--output", tmp_path / "out", "--name", "rows")

    result = run(*given, "--analyze_splits", "train")

    assert (result.status, "--analyze_splits needs --transform" in result.err) == (2, True)


def test_an_installation_without_tft_says_what_to_install(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardmill.transforms.values.options.find_spec", lambda name: None)

    status, said = refused(run, tmp_path, "age: z_score")

    assert status == 2
    assert "--transform needs TensorFlow Transform; run: pip install" in said or "[transform]" in said


def test_a_dry_run_says_what_was_understood(run: Run, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(ROWS)
    (tmp_path / "t.yaml").write_text("age: z_score\ncity: {vocabulary: {top_k: 2}}\ngap: drop\n")
    given = ("csv", "--input", tmp_path / "rows.csv", "--output", tmp_path / "out", "--name", "rows", "--dry_run")

    result = run(*given, "--transform", tmp_path / "t.yaml")

    assert result.status == 0
    told = (result.out + result.err).splitlines()
    start = told.index("Transform:")
    assert told[start + 1 : start + 5] == [
        "  age: age | z_score -> float32",
        "  city: city | vocabulary(top_k=2, num_oov_buckets=0, default_value=-1) -> int64",
        "  as they are: same, label",
        "  dropped: gap",
    ]
