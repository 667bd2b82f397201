"""Fixtures of tests on object stores, whose emulators start once a process of tests."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from shardmill.transforms.stores.clients import set_options
from tests.support.buckets import Bucket, Files, GoogleBucket, S3Bucket, jpeg, make_images, s3_named_once, server
from tests.support.command import local_files, write_files

CLASSES = ("daisy", "rose", "tulip wild")
ODD_NAMES = (
    "a b",
    "100%",
    "%41",
    "#1",
    "x[1]",
    "x1",
    "é",
    "q?",
    "star*",
    "a+b&c=d",
    "a%2Fb",
    ".hidden",
    "~'\"",
    "a\\b",
)


@pytest.fixture(scope="session")
def s3_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with server("s3", tmp_path_factory.mktemp("s3") / "log") as endpoint, s3_named_once():
        yield endpoint


@contextmanager
def a_new_bucket(kind: str, request: pytest.FixtureRequest) -> Iterator[Bucket]:
    """A bucket of its own, `gs` or `s3`; storage finds its store without a pipeline, too."""
    name = f"bucket-{random.SystemRandom().getrandbits(64):x}"
    made: Bucket
    if kind == "gs":
        made = GoogleBucket(name, *request.getfixturevalue("gs_endpoint"))
    else:
        made = S3Bucket(name, request.getfixturevalue("s3_endpoint"))
    set_options(PipelineOptions(made.flags))
    yield made
    set_options(None)


@pytest.fixture(params=["gs", "s3"])
def bucket(request: pytest.FixtureRequest) -> Iterator[Bucket]:
    """A new bucket for each test."""
    with a_new_bucket(request.param, request) as made:
        yield made


@cache
def make_photos() -> Files:
    """A tree of images by name, those of the first class with odd names; a hidden file, and one that is no image."""
    files = {}
    for number, folder in enumerate(CLASSES):
        for index, stem in enumerate(ODD_NAMES if number == 0 else [f"{index:02d}" for index in range(9)]):
            files[f"{folder}/{stem}.jpg"] = jpeg(number * 100 + index)
    files["daisy/.thumbnails/1.jpg"] = files["daisy/.thumbnails/2.jpg"] = jpeg(7)
    files["readme.txt"] = b"no image"
    return files


@pytest.fixture(scope="session")
def photos() -> Files:
    return make_photos()


@pytest.fixture(scope="session")
def local_photos(photos: Files, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("photos"), photos)


@pytest.fixture(scope="session")
def reference(local_photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Files]:
    """What a local run over the same images makes, by flags."""
    made: dict[tuple[str, ...], Files] = {}

    def run(*flags: str) -> Files:
        if flags not in made:
            output = tmp_path_factory.mktemp("reference")
            assert make_images(None, "--input", str(local_photos), "--output", str(output), *flags) == 0
            made[flags] = local_files(output)
        return made[flags]

    return run
