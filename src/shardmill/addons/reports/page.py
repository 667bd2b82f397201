"""Render a version's report as one static HTML page."""

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from importlib.util import cache_from_source
from typing import Any
from unicodedata import bidirectional

from jinja2 import DictLoader, Environment, FileSystemBytecodeCache, StrictUndefined
from markupsafe import Markup

import shardmill
from shardmill.addons.reports import rows as figures
from shardmill.addons.reports.content import ReportSources, report_content, run_default_checks, sources_of_build
from shardmill.metadata import file_names
from shardmill.metadata.versions import BuildRecord, page_path
from shardmill.pipelines.reports import log
from shardmill.pipelines.reports import summary as summaries
from shardmill.quality.profile import Profile
from shardmill.quality.stats_file import SECTIONS, FeatureSummary
from shardmill.reading.dataset import Dataset, open_dataset
from shardmill.text import mask_urls, to_printable
from shardmill.transforms.publishing.catalog import open_failed
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import os_error_text


def keep_templates() -> FileSystemBytecodeCache | None:
    """Return a cache of compiled templates next to Python's own; None if Python may not write there.

    Compiling the page's template takes ten times as long as filling it in.
    """
    folder = os.path.dirname(cache_from_source(__file__))
    if sys.dont_write_bytecode or not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        return None
    return FileSystemBytecodeCache(folder, f"%s-{shardmill.__version__}.jinja2")


_NOTICES, _NOTICE_LETTERS = 20, 2_000  # that a page shows
_RIGHT_TO_LEFT = ("R", "AL")  # classes of letters, of Unicode's Annex 9
MAX_BYTES = 2_000_000  # of a page, which a mail or a ticket still takes


@dataclass(frozen=True, slots=True)
class PageLimits:
    """Limits on what an HTML report shows; the first that gives a page of at most MAX_BYTES is used."""

    features: int = 2_000  # rows, as the next four
    shards: int = 200
    checks: int = 200
    differences: int = 100
    reasons: int = 100
    splits: int = 3  # of a feature, in figures
    top_values: int = 5  # of a feature
    bins: int = 24  # of a histogram
    letters: int = 60  # of a name or value; sentences have four times as many
    pictures: int = 60  # rows of images


_LIMITS = (
    PageLimits(),
    PageLimits(splits=1, shards=100),
    PageLimits(splits=1, top_values=2, bins=16, letters=30, shards=100),
    PageLimits(1_000, 50, 50, 50, 50, 1, 2, 12, 24),
    PageLimits(300, 20, 20, 20, 20, 1, 2, 12, 20, 12),
)


_MANY_FEATURES = 500  # from which a page with the figures of several splits is not even tried


def render_page(content: Mapping[str, Any], sources: ReportSources) -> str:
    """Return the HTML page of `content`, which shardmill.addons.reports.content made from `sources`.

    It has no scripts and no external files, escapes all content, and takes at most 2 MB if the tightest limits suffice.
    """
    text = ""
    pictures = figures.picture_rows(sources.pictures)
    for room in _LIMITS[1:] if len(content["features"]) > _MANY_FEATURES else _LIMITS:
        text = mask_urls(_render_within(content, sources, room, *pictures))
        if len(text.encode()) <= MAX_BYTES:
            return text
    return text


def _render_within(
    content: Mapping[str, Any], sources: ReportSources, room: PageLimits, pairs: Sequence[Any], others: Sequence[Any]
) -> str:
    profile = sources.profile
    template, stats = _make_environment(room.letters).get_template("page"), profile.stats
    return template.render(
        content=content,
        sections=list(SECTIONS),
        room=room,
        notices=_NOTICES,
        checks=figures.check_rows(content["verdict"]["checks"]),
        well=sum(check["severity"] == "ok" for check in content["verdict"]["checks"]),
        unknown=sum(check["severity"] == "unknown" for check in content["verdict"]["checks"]),
        compared=[] if sources.baseline is None else figures.compare_figures(profile, sources.baseline),
        pictures=others[: room.pictures],
        all_pictures=len(others),
        pairs=pairs[: room.pictures],
        width=figures.WIDTH,
        height=figures.HEIGHT,
        labels=[figures.label_rows(label) for label in content["labels"]],
        features=[
            figures.feature_row(
                feature, _find_summaries(profile, feature["name"]), room.splits, room.top_values, room.bins
            )
            for feature in content["features"][: room.features]
        ],
        odd=sum(bool(feature["alerts"]) for feature in content["features"]),
        examples=sum(split["examples"] for split in content["splits"]),
        size_bytes=sum(split["size_bytes"] for split in content["splits"]),
        units=() if stats is None else tuple({unit: None for split in stats.splits.values() for unit in split.counts}),
        made_of=figures.make_build_rows(content["made"]["input"]),
        made_by=[
            row for group in ("configuration", "versions") for row in figures.make_build_rows(content["made"][group])
        ],
    )


def _find_summaries(profile: Profile, feature: str) -> dict[str, FeatureSummary]:
    found = {split: profile.summary(split, feature) for split, examples in profile.splits.items() if examples}
    return {split: summary for split, summary in found.items() if summary is not None}


@cache
def _make_environment(letters: int) -> Environment:
    """Return the environment with the compiled template: a process that makes many pages compiles it once."""
    folder = files("shardmill.addons.reports")
    template, css = (folder / "page.html").read_text("utf-8"), (folder / "page.css").read_text("utf-8")
    sections = {key: (files(add_on.package) / "page.html").read_text("utf-8") for key, add_on in SECTIONS.items()}
    environment = Environment(
        loader=DictLoader({"page": template, "css": css, **sections}),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        optimized=False,  # or filters would be called as the template is compiled, and what they gave kept
        bytecode_cache=keep_templates(),
    )

    def short(text: object) -> str:
        return clip_name(str(text), letters, letters // 3)  # names often share their beginning

    environment.filters |= {
        "figure": summaries.format_number,
        "share": summaries.format_share,
        "size": summaries.human_size,
        "short": short,
        "sentence": lambda text: clip_name(str(text), 4 * letters),
        "notice": lambda text: clip_name(text, _NOTICE_LETTERS),
        "words": lambda text: isolate_direction(Markup("_<wbr>").join(short(text).split("_"))),  # where lines break
        "isolated": lambda text: isolate_direction(short(text)),
        "part": share_bar,
    }
    return environment


def isolate_direction(text: str) -> str:
    """Isolate a text that may run from right to left, so that the text after it keeps its place."""
    if text.isascii() or not any(bidirectional(letter) in _RIGHT_TO_LEFT for letter in text):
        return text
    return Markup("<bdi>{}</bdi>").format(text)


def share_bar(words: str) -> str:
    """Return attributes that draw a bar beneath a share such as `2.5 %`; "" for other words."""
    percent = words.removesuffix(" %").removeprefix("under ")
    return Markup(' class="s" style="--s:{}%"').format(percent) if words.endswith(" %") else ""


def clip_name(text: str, letters: int, end: int = 0) -> str:
    """Escape unprintable characters, and cut the text to `letters`, keeping `end` of them from its end."""
    shown = to_printable(text)
    return shown if len(shown) <= letters else f"{shown[: letters - 1 - end]}…{shown[len(shown) - end :]}"


def write_page(
    parent: str,
    record: BuildRecord,
    path: str,
    previous: Profile | None = None,
    opened: tuple[Dataset, Profile] | None = None,
) -> None:
    """Write the page of a build that published a version, or whose version failed its checks and is kept.

    A failure to write is a warning: it must not fail a build that has ended. `path` is where the record is, `previous`
    the profile of the version that LATEST named as the build began, if known.
    """
    try:
        dataset, profile = opened or (_open_built(parent, record), None)
        if dataset is not None:
            sources = sources_of_build(dataset, parent, record, previous, profile)
            text = render_page(report_content(sources, with_statistics=False), sources)
            out = page_path(path)
            storage.write_text(out, text, f"{out}.{record.started.replace(':', '')}.tmp")
    except Exception as error:  # a defect here, too, must not take the night
        problem = os_error_text(error) if isinstance(error, OSError) else str(error) or type(error).__name__
        log.warn(f"the page of this build could not be written: {problem}")


def with_page_checks(record: BuildRecord, profile: Profile | None, previous: Profile | None) -> BuildRecord:
    """Add the page's checks to the record of a published build without checks.

    On a wide table they take longer than everything else, so they are made once and not for every request of the page.
    """
    if record.checks or profile is None:
        return record
    with suppress(Exception):  # which `write_page` says, or `shardmill report`
        return replace(record, page_checks=tuple(result.to_json() for result in run_default_checks(profile, previous)))
    return record


def _open_built(parent: str, record: BuildRecord) -> Dataset | None:
    """Open the version that a build made, or the kept one that failed its checks; return None if it does not exist."""
    files = storage.StorageFiles()
    if record.status in ("published", "outrun"):
        return open_dataset(storage.join(parent, record.version), files)
    folder = storage.join(storage.join(parent, file_names.FAILED), record.version)
    if record.status != "checks_failed" or not files.exists(storage.join(folder, file_names.MANIFEST)):
        return None
    return open_failed(folder)
