"""Functions for --map and --map_batches: clean rows of a table, and augment images.

shardmill csv --input trips.csv --output datasets --name trips --map examples/your_function.py:clean_row
shardmill csv --input trips.csv --output datasets --name quick --map_batches examples/your_function.py:clean_batch
shardmill images --input photos --output datasets --name flipped --map examples/your_function.py:augment
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from PIL import ImageOps


def clean_row(row: dict[str, Any]) -> dict[str, Any] | None:
    """Leave out trips without a distance, and compute the speed in km/h of the others."""
    if not row["km"]:
        return None
    return {"city": row["city"].strip().lower(), "km": row["km"], "speed": 60 * row["km"] / row["minutes"]}


def clean_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Do the same for a whole batch of rows at once."""
    batch = batch.filter(pc.fill_null(pc.greater(batch["km"], 0), False))
    city = pc.utf8_lower(pc.utf8_trim_whitespace(batch["city"]))
    speed = pc.divide(pc.multiply(batch["km"], 60.0), batch["minutes"])
    return pa.RecordBatch.from_arrays([city, batch["km"], speed], ["city", "km", "speed"])


def augment(row: dict[str, Any], rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """Keep an image, and add a mirrored copy that is brighter or darker by up to 20 %."""
    yield {**row, "augmented": False}
    pixels = np.asarray(ImageOps.mirror(row["image"].convert("RGB"))) * rng.uniform(0.8, 1.2)
    yield {**row, "image": pixels.clip(0, 255).astype(np.uint8), "augmented": True}
