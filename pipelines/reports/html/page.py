"""A report as one page: no script, nothing from elsewhere, and never more than 2 MB. What it shows is escaped."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any
from unicodedata import bidirectional

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup

from shardmill.checks.profile import Profile
from shardmill.pipelines.reports.figures import figure, human_size, share
from shardmill.pipelines.reports.html.charts import HEIGHT, WIDTH
from shardmill.pipelines.reports.html.check_rows import check_rows
from shardmill.pipelines.reports.html.compiled import CompiledTemplates
from shardmill.pipelines.reports.html.content import Sources
from shardmill.pipelines.reports.html.made_rows import made_rows
from shardmill.pipelines.reports.html.picture_rows import PictureRows, picture_rows
from shardmill.pipelines.reports.html.rows import feature_row, label_rows
from shardmill.printable import printable
from shardmill.statistics.feature_summary import FeatureSummary

_RIGHT_TO_LEFT = ("R", "AL")  # classes of letters, of Unicode's Annex 9
MAX_BYTES = 2_000_000  # of a page, which a mail or a ticket still takes


@dataclass(frozen=True, slots=True)
class Room:
    """How much of everything a page shows: the first that gives a page of at most MAX_BYTES.

    Attributes:
      features, shards, checks, differences, reasons: at most so many rows.
      splits: of a feature, in figures.
      top_values: of a feature.
      bins: of a histogram.
      pictures: at most so many rows of images.
      letters: of a name or value; those of sentences are four times as many.
    """

    features: int = 2_000
    shards: int = 200
    checks: int = 200
    differences: int = 100
    reasons: int = 100
    splits: int = 3
    top_values: int = 5
    bins: int = 24
    letters: int = 60
    pictures: int = 60


_ROOMS = (
    Room(),
    Room(splits=1, shards=100),
    Room(splits=1, top_values=2, bins=16, letters=30, shards=100),
    Room(1_000, 50, 50, 50, 50, 1, 2, 12, 24),
    Room(300, 20, 20, 20, 20, 1, 2, 12, 20, 12),
)


_MANY_FEATURES = 500  # from which a page with the figures of several splits is not even tried


def page(content: Mapping[str, Any], sources: Sources) -> str:
    """The HTML of what `shardmill.pipelines.reports.html.content` gave of these `sources`."""
    text = ""
    pictures = picture_rows(sources.pictures)
    for room in _ROOMS[1:] if len(content["features"]) > _MANY_FEATURES else _ROOMS:
        text = render(content, sources.profile, pictures, room)
        if len(text.encode()) <= MAX_BYTES:
            return text
    return text


def render(content: Mapping[str, Any], profile: Profile, pictures: PictureRows, room: Room) -> str:
    """The page with so much room."""
    template = _environment(room.letters).get_template("page")
    return template.render(
        content=content,
        room=room,
        checks=check_rows(content["verdict"]["checks"]),
        well=sum(check["severity"] == "ok" for check in content["verdict"]["checks"]),
        pictures=pictures.others[: room.pictures],
        all_pictures=len(pictures.others),
        look_alikes=pictures.look_alikes[: room.pictures],
        width=WIDTH,
        height=HEIGHT,
        labels=[label_rows(label) for label in content["labels"]],
        features=[
            feature_row(feature, _summaries(profile, feature["name"]), room.splits, room.top_values, room.bins)
            for feature in content["features"][: room.features]
        ],
        odd=sum(bool(feature["alerts"]) for feature in content["features"]),
        examples=sum(split["examples"] for split in content["splits"]),
        size_bytes=sum(split["size_bytes"] for split in content["splits"]),
        made_of=made_rows(content["made"]["input"]),
        made_by=[row for group in ("configuration", "versions") for row in made_rows(content["made"][group])],
    )


def _summaries(profile: Profile, feature: str) -> dict[str, FeatureSummary]:
    """Of the splits that have examples and of which something is known."""
    found = {split: profile.summary(split, feature) for split, examples in profile.splits.items() if examples}
    return {split: summary for split, summary in found.items() if summary is not None}


@cache
def _environment(letters: int) -> Environment:
    """What fills in the page, with the template once it is compiled: a process that builds many compiles one."""
    folder = files("shardmill.pipelines.reports.html")
    template, css = (folder / "page.html").read_text("utf-8"), (folder / "page.css").read_text("utf-8")
    made = Environment(
        loader=DictLoader({"page": template, "css": css}),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        optimized=False,  # or filters would be called as the template is compiled, and what they gave kept
        bytecode_cache=CompiledTemplates(),
    )
    made.filters |= {
        "figure": figure,
        "share": share,
        "size": human_size,
        "short": lambda text: clip(str(text), letters, _end(letters)),
        "sentence": lambda text: clip(str(text), 4 * letters),
        "words": lambda text: isolated(
            Markup("_<wbr>").join(clip(str(text), letters, _end(letters)).split("_"))
        ),  # where lines break
        "isolated": lambda text: isolated(clip(str(text), letters, _end(letters))),
        "part": part,
    }
    return made


def isolated(text: str) -> str:
    """A text that may be written from the right to the left, so that what stands behind it stays there."""
    if text.isascii() or not any(bidirectional(letter) in _RIGHT_TO_LEFT for letter in text):
        return text
    return Markup("<bdi>{}</bdi>").format(text)


def part(words: str) -> str:
    """The attributes of an element that shows a share, of its words, such as `2.5 %`: a bar beneath; else none."""
    percent = words.removesuffix(" %").removeprefix("under ")
    return Markup(' class="s" style="--s:{}%"').format(percent) if words.endswith(" %") else ""


def clip(text: str, letters: int, end: int = 0) -> str:
    """A text with what is not printable escaped, cut to so many letters, `end` of them those that it ends with."""
    shown = printable(text)
    return shown if len(shown) <= letters else f"{shown[: letters - 1 - end]}…{shown[len(shown) - end :]}"


def _end(letters: int) -> int:
    """How much of a name's end is shown: names that begin alike are told apart by it, such as those of one folder."""
    return letters // 3
