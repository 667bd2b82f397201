"""The colours of a page's charts differ for the colour-blind too, and no other colour says what no word does."""

import math
import re
from importlib.resources import files
from itertools import combinations

import pytest

Linear = tuple[float, float, float]
# Machado, Oliveira and Fernandes, "A physiologically-based model for simulation of color vision deficiency" (2009), of
# the greatest severity; the rows of matrices over linear RGB.
SEEN = {
    "all": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "no red": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "no green": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881)),
    "no blue": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
CHART = ("fill", "other", "soft")  # the first split, the others, and what is behind both
FAR = 40  # CIE76, of which 2.3 is just noticed
CSS = (files("shardmill.addons.reports") / "page.css").read_text("utf-8")
ROOTS = dict(zip(("light", "dark", "print"), re.findall(r":root\{([^}]*)\}", CSS), strict=True))


def linear(colour: str) -> Linear:
    channels = [int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return red, green, blue


def lab(colour: Linear) -> Linear:
    red, green, blue = colour
    whites = (0.95047, 1.0, 1.08883)
    rows = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
    parts = [(a * red + b * green + c * blue) / white for (a, b, c), white in zip(rows, whites, strict=True)]
    x, y, z = (part ** (1 / 3) if part > 0.008856 else 7.787 * part + 16 / 116 for part in parts)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def seen(colour: str, by: str) -> Linear:
    plain = linear(colour)
    red, green, blue = (min(max(sum(a * b for a, b in zip(row, plain, strict=True)), 0.0), 1.0) for row in SEEN[by])
    return lab((red, green, blue))


def test_print_takes_no_colour_of_the_dark_page() -> None:
    colours = {name: dict(re.findall(r"--(\w+):(#[0-9a-f]+)", root)) for name, root in ROOTS.items()}

    assert colours["print"].keys() == colours["dark"].keys() == colours["light"].keys()
    for name in ("good", "warn", "bad", "fill", "other", "paper"):
        assert colours["print"][name] == colours["light"][name] != colours["dark"][name]


@pytest.mark.parametrize("by", SEEN)
@pytest.mark.parametrize("scheme", ROOTS)
def test_the_colours_of_charts_differ(scheme: str, by: str) -> None:
    colours = dict(re.findall(r"--(\w+):(#[0-9a-f]{6})", ROOTS[scheme]))

    for one, other in combinations(CHART, 2):
        assert math.dist(seen(colours[one], by), seen(colours[other], by)) > FAR, (one, other)
