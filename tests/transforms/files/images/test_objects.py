"""Objects are placed before their images are read, or once these are; it makes no difference."""

import numpy as np
import pyarrow as pa
import pytest

from shardmill.transforms.files.image_codec import Reencode
from shardmill.transforms.files.image_geometry import Picture
from shardmill.transforms.files.image_objects import ObjectEncoder
from shardmill.transforms.inputs.annotations import (
    PLANNED_OBJECTS,
    Object,
    ObjectField,
    build_lists_of_columns,
    plan_objects,
    read_planned_objects,
)

MEMBERS: tuple[ObjectField, ...] = ("area", "bbox", "id", "label")
SIZE = (60, 40)


def planned(sizes: list[tuple[int, int] | None]) -> pa.RecordBatch:
    """Images of which `sizes` are said, the number of whose objects is their place; each has a box from the corner."""
    objects = [
        [Object("cat", 0, 0, 10 + each, 20 + each, 100 * image + each, 8.0) for each in range(image)]
        for image in range(len(sizes))
    ]
    columns = zip(*(item for of_image in objects for item in of_image), strict=True)
    sides = [[None if size is None else size[side] for size in sizes] for side in (0, 1)]
    found = pa.RecordBatch.from_arrays(
        [*(pa.array(side, pa.int64()) for side in sides), build_lists_of_columns(columns, list(map(len, objects)))],
        ["box_width", "box_height", "objects"],
    )
    return plan_objects(found, {"cat": 0})


@pytest.mark.parametrize("how", [None, Reencode("png", (30, 30), "cover"), Reencode("png", (30, 30), "contain")])
@pytest.mark.parametrize("start", [0, 2])
def test_prepared_objects_are_those_of_the_images_as_they_are(how: Reencode | None, start: int) -> None:
    sizes = [SIZE, SIZE, None, SIZE, (61, 40), SIZE, SIZE, (40, 60)]
    pictures = [Picture(*SIZE, 6 if place == 7 else 1) for place in range(len(sizes))]
    encoder = ObjectEncoder(MEMBERS)
    batch = planned(sizes)
    expected, expected_errors = encoder.place(read_planned_objects(batch), pictures, how)
    prepared = encoder.prepare(batch, how).slice(start)
    seen: list[Picture | None] = [None if place == 5 else picture for place, picture in enumerate(pictures)]
    rows, places, errors = encoder.annotate(prepared, seen[start:], how)

    assert batch.schema.equals(PLANNED_OBJECTS)
    assert {place + start for place in errors} == set(expected_errors) == {4}
    for place, row in enumerate(places, start):
        assert (row is None) == (place == 5)
        if row is not None and place != 4:
            assert rows.slice(row, 1).to_pylist() == expected.slice(place, 1).to_pylist()
            assert len(rows["objects/id"][row]) + rows["cropped"][row].as_py() == place


def test_what_is_prepared_is_taken() -> None:
    encoder = ObjectEncoder(MEMBERS)
    prepared = encoder.prepare(planned([SIZE, SIZE]), None)
    rows, places, _ = encoder.annotate(prepared, [Picture(*SIZE)] * 2, None)

    assert places == [0, 1]
    assert len(rows) == 2
    np.testing.assert_allclose(rows["objects/bbox"][1].as_py(), [0, 0, 10 / 40, 20 / 60], rtol=1e-6)
