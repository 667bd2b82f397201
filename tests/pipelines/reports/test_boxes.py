"""The names of boxes that are drawn on a picture."""

from PIL import Image, ImageChops

from shardmill.pipelines.reports.contact_sheet import draw_objects
from shardmill.pipelines.reports.pictures import ObjectBox
from shardmill.transforms.files.image_geometry import Box


def drawn(name: str, left: float, right: float) -> Image.Image:
    image = Image.new("RGB", (100, 60))
    draw_objects(image, [ObjectBox(Box(0.1, left, 0.9, right), 1, name)], b"")
    return image


def test_a_name_may_be_twice_as_wide_as_its_box_and_stays_in_the_picture() -> None:
    for left in (0.0, 0.3, 0.72):  # the last box ends where the picture does
        whole = drawn("green", left, left + 0.27)
        assert ImageChops.difference(whole, drawn("gree", left, left + 0.27)).getbbox() is not None
    name = ImageChops.difference(drawn("green", 0.72, 0.99), drawn("", 0.72, 0.99)).getbbox()
    assert name is not None
    assert name[0] < 72
    assert name[2] <= 100


def test_a_longer_name_is_cut_and_a_narrow_box_has_none() -> None:
    long = "a very long name of a class"
    assert drawn(long, 0.0, 0.27).tobytes() == drawn(long[:-3], 0.0, 0.27).tobytes()
    assert drawn("green", 0.0, 0.2).tobytes() == drawn("", 0.0, 0.2).tobytes()
