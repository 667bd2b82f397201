"""Measure the cost of annotations: `shardmill images` of a plain folder against the same images with COCO's objects.

Both on the same files in one run, as processes of their own with start-up included, in turns. An image has as many
objects as one of COCO's train2017 has, 7.3 in the mean, each with a polygon, which is left out. The table also
has the time in which orjson parses the file and does nothing with it.
"""

import argparse
import json
import random
import statistics
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import tables
from against import in_turns, table
from measure import SHARDMILL, make_images
from options import add_folder, add_images, add_rounds, add_write

PLAIN, COCO, PARSED = "a plain folder", "`--coco`, the same images", "orjson alone"
_SPLITS = "train=0.8,validation=0.1,test=0.1"
_OBJECTS = 7.3  # an image's of COCO's train2017: 860,001 annotations of 118,287 images
_CATEGORIES = 80
_CORNERS = 20  # of a polygon


def make_coco(images: Path, side: int) -> Path:
    """COCO's file of a folder of square images, made unless it is there already."""
    path = images.with_name(f"{images.name}-{side}.json")
    if path.exists():
        return path
    chance = random.Random(0)
    listed: list[dict[str, object]] = []
    annotations: list[dict[str, object]] = []
    for number, image in enumerate(sorted(images.glob("*/*.jpg")), 1):
        name = image.relative_to(images).as_posix()
        listed.append({"id": number, "file_name": name, "width": side, "height": side, "date_captured": "2013-11-14"})
        for _ in range(min(int(chance.expovariate(1 / _OBJECTS)), 90)):
            annotations.append(_annotation(len(annotations) + 1, number, side, chance))
    chance.shuffle(annotations)
    categories = [{"id": 2 * number + 1, "name": f"thing {number:02d}"} for number in range(_CATEGORIES)]
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps({"images": listed, "annotations": annotations, "categories": categories}))
    temporary.rename(path)
    return path


def _annotation(number: int, image: int, side: int, chance: random.Random) -> dict[str, object]:
    width, height = (round(chance.uniform(2, side / 2), 2) for _ in range(2))
    x, y = round(chance.uniform(0, side - width), 2), round(chance.uniform(0, side - height), 2)
    return {
        "id": number,
        "image_id": image,
        "category_id": 2 * chance.randrange(_CATEGORIES) + 1,
        "bbox": [x, y, width, height],
        "area": round(width * height * chance.uniform(0.3, 1), 4),
        "iscrowd": int(chance.random() < 0.01),
        "segmentation": [[round(chance.uniform(0, side), 2) for _ in range(2 * _CORNERS)]],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_images(parser, 50_000)
    add_rounds(parser)
    add_folder(parser)
    add_write(parser)
    args = parser.parse_args()

    images = make_images(args.folder, args.images, kilobytes=args.kilobytes)
    side = round(256 * (args.kilobytes / 25) ** 0.5)  # as make_images.py has it
    with ProcessPoolExecutor(1) as pool:  # what is measured begins with the memory of this process
        coco = pool.submit(make_coco, images, side).result()
    output = args.folder / "output"
    common = ["--input", str(images), "--output", str(output), "--name", "bench", "--splits", _SPLITS]
    command = [SHARDMILL, "images", *common]
    parse = "import sys, orjson; orjson.loads(open(sys.argv[1], 'rb').read())"
    commands = {
        PLAIN: command,
        COCO: [*command, "--coco", str(coco)],
        PARSED: [sys.executable, "-c", parse, str(coco)],
    }
    runs = in_turns(commands, output, args.rounds)
    size = coco.stat().st_size / 1e6
    what = f"{args.images:,} JPEGs of {args.kilobytes:g} KB, {size:.0f} MB of COCO, medians of {args.rounds} rounds:"
    slower = [
        loss
        for field, unit in (("seconds", "seconds"), ("core_seconds", "core seconds"))
        for loss in tables.losses(
            {name: statistics.median(getattr(run, field) for run in runs[name]) for name in (PLAIN, COCO)}, COCO, unit
        )
    ]
    tables.publish(f"{what}\n\n{table(runs, 'of the plain folder')}", args.write, losses=slower)


if __name__ == "__main__":
    main()
