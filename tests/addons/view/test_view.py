"""`shardmill view`: who its server answers, and what; `make check NAME=page` opens its page in Chromium."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardmill
from shardmill.addons.view.files import RecordFile
from shardmill.addons.view.pages import mask_overlay, python_code
from shardmill.addons.view.values import decode_any, describe_fields, show_list
from shardmill.addons.view.view_command import View
from shardmill.data.example import encode_varint
from shardmill.filesystem import LocalFiles
from tests.support.command import Run, check_mistake, image, tree_bytes, write_files
from tests.support.encoded import encode_example
from tests.support.reading import make
from tests.support.record_files import detection, hostile, trip, write_records
from tests.support.tokenizer_files import TEXTS, tokenizer_json


class Page:
    """A running view, asked as its page asks."""

    def __init__(self, view: View) -> None:
        self.view = view

    def get(self, what: str = "", /, host: str = "", **query: object) -> tuple[bytes, Any]:
        """Return the body and the headers of an answer."""
        url = f"{self.view.url}{what}?{urllib.parse.urlencode(query)}"
        request = urllib.request.Request(url, headers={"Host": host} if host else {})
        with urllib.request.urlopen(request) as answer:
            return answer.read(), answer.headers

    def ask(self, what: str, /, **query: Any) -> Any:
        """Return the JSON of an answer."""
        return json.loads(self.get(what, **query)[0])

    def status(self, what: str, /, **query: Any) -> tuple[int, str]:
        """Return the status of a request that is refused, and the words."""
        with pytest.raises(urllib.error.HTTPError) as caught:
            self.get(what, **query)
        return caught.value.code, caught.value.read().decode()


@pytest.fixture
def pages() -> Iterator[Any]:
    started = list[View]()

    def open_page(*paths: object, **how: Any) -> Page:
        started.append(shardmill.view([str(path) for path in paths], **how))
        return Page(started[-1])

    yield open_page
    for view in started:
        view.stop()


def test_only_this_machine_with_the_token_is_answered(layouts: Path, pages: Any) -> None:
    page = pages(layouts / "od")
    text, headers = page.get()

    assert page.view.url.startswith("http://127.0.0.1:")
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert (headers["X-Content-Type-Options"], headers["Referrer-Policy"]) == ("nosniff", "no-referrer")
    assert b"http://www.w3.org/2000/svg" in text
    assert page.status("info", host="evil.example:80")[0] == 403
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"{page.view.url[:-5]}wrong/info")
    assert page.status("no_such_thing")[0] == 400
    assert page.get("info")[1]["Content-Security-Policy"] == "default-src 'none'; sandbox"


def test_examples_have_pictures_boxes_and_names_of_classes(layouts: Path, pages: Any) -> None:
    page = pages(layouts / "od")
    cards = page.ask("examples", split="train", number=0)["examples"]

    assert len(cards) == 12
    assert cards[2]["boxes"][0] == pytest.approx([0.1, 0.1, 0.6, 0.5, "cat", 1])
    assert page.get("media", split="train", number=2, name="image/encoded")[0].startswith(b"\xff\xd8\xff")
    assert page.ask("examples", number=10)["examples"][0]["number"] == 10
    assert page.status("media", number=2, name="image/filename") == (
        400,
        '{"error": "the value is neither a picture nor a sound"}',
    )


def test_filters_sorts_and_jumps(layouts: Path, pages: Any) -> None:
    page = pages(layouts / "tfx")

    def numbers(what: str, /, **query: object) -> list[int]:
        return [card["number"] for card in page.ask(what, **query)["examples"]]

    assert numbers("search", split="train", name="company", how="=", wanted="c1") == [1, 9, 13, 17]
    assert numbers("search", split="train", name="miles", how=">", wanted="17") == [18, 19]
    assert numbers("search", split="train", name="", how="has", wanted="C3") == [3, 7, 11, 19]
    assert numbers("sort", split="train", name="miles", descending=1)[:3] == [19, 18, 17]
    assert page.ask("find", split="train", wanted="c2") == {"number": 2}
    assert page.status("search", name="miles", how=">", wanted="x") == (400, '{"error": "\'x\' is no number"}')
    assert page.status("one", number=99)[0] == 400


def test_classes_are_found_by_their_names(layouts: Path, pages: Any) -> None:
    page = pages(layouts / "od")
    found = page.ask("search", name="image/object/class/label", how="=", wanted="dog")["examples"]

    assert [card["number"] for card in found] == [2, 5, 8, 11]


def test_pages_are_read_by_their_place(tmp_path: Path, pages: Any) -> None:
    path = write_records(tmp_path / "a", [encode_example({"n": [number]}) for number in range(5_000)])
    page = pages(path)

    found = page.ask("examples", number=4_930)
    assert [card["number"] for card in found["examples"]] == list(range(4_930, 4_990))
    assert found["next"] == 4_990
    assert len(page.ask("examples", number=4_990)["examples"]) == 10


def test_one_example_is_copied_as_python(layouts: Path, pages: Any) -> None:
    page = pages(layouts / "od")
    code = page.ask("one", number=8)["python"]
    values: dict[str, Any] = {}
    exec(code, values)

    assert values["example"]["image/filename"] == b"8.jpg"
    assert values["values"]["image/object/class/label"] == [1, 2]


def test_python_of_a_compressed_file_reads_in_order(layouts: Path, pages: Any) -> None:
    code = pages(layouts / "tfx").ask("one", split="train", number=3)["python"]
    values: dict[str, Any] = {}
    exec(code, values)

    assert values["example"]["miles"] == 3


@pytest.mark.parametrize(
    ("layout", "examples"),
    [("videos", 6), ("cars", 4), ("tensors", 5), ("zlib", 20), ("one", 1), ("zero", 0), ("bad.tfrecord", 6)],
)
def test_every_layout_is_shown(layouts: Path, layout: str, examples: int, pages: Any) -> None:
    page = pages(layouts / layout)
    cards = page.ask("examples", number=0)["examples"]

    assert len(cards) == examples
    assert all(page.ask("one", number=card["number"])["number"] == card["number"] for card in cards)
    if layout == "bad.tfrecord":
        assert "fails its checksum" in cards[1]["damage"]
        assert "fails its checksum" in page.ask("info")[0]["damaged"][0]


def test_masks_are_drawn_over_images(tmp_path: Path, pages: Any) -> None:
    mask = image(1, "PNG", (8, 8))
    record = encode_example({"image": [image(2, "PNG", (8, 8))], "segmentation_mask": [mask]})
    page = pages(write_records(tmp_path / "a", [record]))
    (card,) = page.ask("examples", number=0)["examples"]

    assert ([one["name"] for one in card["images"]], card["masks"][0]["name"]) == (["image"], "segmentation_mask")
    assert page.get("media", number=0, name="segmentation_mask", mask=1)[0] == mask_overlay(mask) != b""


def test_samples_of_audio_are_a_wav_file(tmp_path: Path, pages: Any) -> None:
    samples = np.sin(np.arange(4_000) / 9).astype(np.float32)
    page = pages(write_records(tmp_path / "a", [encode_example({"audio": samples})]))

    assert page.ask("examples", number=0)["examples"][0]["sounds"] == [{"name": "audio", "at": 0, "mask": False}]
    assert page.get("media", number=0, name="audio")[0][:4] == b"RIFF"


def test_a_data_set_of_ours_has_its_rejects_and_notices(tmp_path: Path) -> None:
    write_files(tmp_path / "in", {f"{name}/{number}.png": image(number) for name in "ab" for number in range(4)})
    (tmp_path / "in/a/bad.png").write_bytes(b"\x89PNG\r\n\x1a\nno")
    made = make("images", tmp_path / "in", tmp_path / "out", "--max_reject_fraction", 1)
    before = tree_bytes(made)
    view = shardmill.view(made)
    info = Page(view).ask("info")[0]
    cards = Page(view).ask("examples", number=0)["examples"]
    view.stop()

    assert (info["title"], info["rejects"]["records"], len(cards)) == ("n 1.0.0", 1, 8)
    assert "bad.png" in info["reject_lines"][0]
    assert tree_bytes(made) == before


@pytest.mark.parametrize("content", [tokenizer_json(), tokenizer_json() + b" "])
def test_token_ids_are_decoded_by_the_tokenizer_of_the_data_set(tmp_path: Path, content: bytes) -> None:
    write_files(tmp_path, {"in/a.txt": "\n".join(TEXTS[:3]).encode(), "tokenizer.json": tokenizer_json()})
    made = make("text", tmp_path / "in", tmp_path / "out", "--tokenizer", tmp_path / "tokenizer.json")
    (made.parent / "tokenizer.json").write_bytes(content)
    view = shardmill.view(made)
    (shown,) = (value for value in Page(view).ask("one", number=0)["values"] if value["name"] == "input_ids")
    view.stop()
    assert (shown["tokens"] in TEXTS) == (content == tokenizer_json())


def test_two_inputs_side_by_side(layouts: Path, tmp_path: Path, pages: Any) -> None:
    other = write_records(tmp_path / "a", [trip(number + (number == 3)) for number in range(20)])
    page = pages(layouts / "spark", against=other)
    left, right = (page.ask("examples", side=side, number=0)["examples"] for side in (0, 1))

    assert [one["number"] for one, two in zip(left, right, strict=True) if one["rows"] != two["rows"]] == [3]


def test_a_notebook_shows_it_inline(layouts: Path, pages: Any) -> None:
    page = pages(layouts / "one")

    assert f'<iframe src="{page.view.url}"' in page.view._repr_html_()
    assert "frame-ancestors http://localhost:*" in page.get()[1]["Content-Security-Policy"]


def test_hostile_values_are_literals_of_python() -> None:
    code = python_code(RecordFile("a", "all", LocalFiles()), 0, decode_any(hostile(1))[1])
    values: dict[str, Any] = {}
    exec(f"values = {code.partition('values = ')[2]}", values)

    assert values["values"]["<script>alert(1)</script>"] == [b"<img src=x onerror=alert(2)>\x1b[31mred"]


def test_lists_and_messages_of_an_unknown_kind_are_described() -> None:
    assert [show_list(np.arange(n)) for n in (2, 9)] == ["[0, 1] (2)", "[0, 1, 2, 3, 4, 5, 6, 7, …] (9)"]
    last, first_refused = (encode_varint(number << 3) + b"\x01" for number in ((1 << 20) - 1, 1 << 20))
    assert describe_fields(b"\x08\x01\x10\x02\x10\x03" + last) == "1: number, 2: 2 x number, 1048575: number"
    assert describe_fields(first_refused) == ""


def test_ctrl_c_ends_it(tmp_path: Path) -> None:
    path = write_records(tmp_path / "a.tfrecord", [detection(1)])
    command = [sys.executable, "-m", "shardmill", "view", str(path), "--no_browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:")
        assert urllib.request.urlopen(url).status == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


def test_mistakes(tmp_path: Path, run: Run) -> None:
    check_mistake(run("view", tmp_path / "none", "--no_browser"), "there is no such folder")
    path = write_records(tmp_path / "a.tfrecord", [trip(1)])
    check_mistake(run("view", path, "--no_browser", "--port", 1 << 16), "--port 65536: ")
    (tmp_path / "empty").mkdir()
    check_mistake(run("view", tmp_path / "empty", "--no_browser"), "is not a data set")
