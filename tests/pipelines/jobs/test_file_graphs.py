"""A dry run in words; the end-to-end tests run one."""

from collections import Counter
from dataclasses import replace

from shardmill.metadata.labels import ClassNames
from shardmill.metadata.manifest import Reject
from shardmill.pipelines.config.images import ImagesConfig
from shardmill.pipelines.jobs.file_graphs import FilesDryRun, describe_files_plan
from shardmill.transforms.inputs.folders import SPLITS_OF_CLASSES
from shardmill.transforms.inputs.summary import InputSummary
from shardmill.transforms.layout.files import Layout
from shardmill.transforms.workers.rejects import make_parts

CONFIG = ImagesConfig(input="photos", output="out", name="flowers")
PLAN = FilesDryRun(
    InputSummary(records=1234, size_bytes=5_000_000),
    Layout(
        ("train", "test", "rest"),
        None,
        SPLITS_OF_CLASSES,
        ClassNames(("ant", "bee")),
        notices=("passed over 1 .txt file",),
    ),
    {("train", 1): (500, 2_000_000), ("train", 0): (501, 2_100_000), ("test", 0): (233, 900_000)},
    Counter({("train", 0): 1000, ("train", 1): 1, ("test", 0): 233}),
    [],
)


def test_what_would_be_done() -> None:
    assert describe_files_plan(PLAN, CONFIG).splitlines() == [
        "Dry run: nothing is written. Would write out/flowers/1.0.0",
        "Input: --input photos: 1,234 files, 5.0 MB",
        "Split train: 1,001 examples, about 4.1 MB, in 2 shards of 500 to 501 examples, 2.0 MB to 2.1 MB",
        "Split test: 233 examples, about 900.0 kB, in 1 shard of 233 examples, 900.0 kB",
        "Split rest: empty",
        "Classes: 2",
        "  0 ant: 1,000 train, 233 test, 0 rest",
        "  1 bee: 1 train, 0 test, 0 rest",
        "NOTE: passed over 1 .txt file",
    ]


def test_rejects_and_unlabelled_images() -> None:
    plan = replace(
        PLAN,
        layout=replace(PLAN.layout, class_names=None),
        rejects=make_parts([Reject("a b.jpg", None, "index", "no split")] * 2, None),
    )
    lines = describe_files_plan(plan, CONFIG).splitlines()

    assert "Rejected so far: 2, such as 'a b.jpg': no split" in lines
    assert "Classes: none; the images are unlabelled" in lines


def test_many_classes_are_counted() -> None:
    names = tuple(f"class{index:04}" for index in range(1000))
    lines = describe_files_plan(
        replace(PLAN, layout=replace(PLAN.layout, class_names=ClassNames(names))), CONFIG
    ).splitlines()

    assert "Classes: 1,000" in lines
    assert "  … and 987 more …" in lines
    assert lines[-2].startswith("  999 class0999: ")
    assert len(lines) == 5 + 1 + 10 + 1 + 3 + 1


def test_objects_in_images_are_counted() -> None:
    summary = replace(PLAN.summary, objects=Counter({"ant": 7, "bee": 1200}))
    layout = replace(PLAN.layout, object_classes=ClassNames(("ant", "bee")))

    for found, objects in ((summary, "Objects: 1,207, most often bee"), (PLAN.summary, "Objects: 0")):
        lines = describe_files_plan(replace(PLAN, summary=found, layout=layout), CONFIG).splitlines()
        assert lines[-3:-1] == ["Classes of objects: 2: ant, bee", objects]
