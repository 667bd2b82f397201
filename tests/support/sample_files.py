"""Write the files of `shardmill sample`, from the data that pages name: python -m tests.support.sample_files.

The data that the programs in examples/ train on is in the archive only, and stays as it is there.
"""

import tempfile
import zipfile
from pathlib import Path

from tests.support.command import REPOSITORY
from tests.support.pages import write_page_data

ARCHIVE = REPOSITORY / "src/shardmill/addons/samples/files.zip"
# Names in the folder of pages, by kind; all others are of photos
_NAMES = {
    "kaggle": "dogs meta.csv train train.csv",
    "masks": "carvana depth masked.csv seg segments ships",
    "boxes": "boxes boxes.csv boxes.parquet coco export lone project via VOC2012 yolo",
    "digits": "demo",
    "table": "cities.txt faces.csv houses.csv people.csv pixels.csv rows.csv tags.csv trips.csv visits.csv",
    "nested": "chats.jsonl rows.jsonl tags.jsonl",
    "parquet": "pets.parquet",
    "sql": "shop.db",
    "text": "corpus reviews.txt tokenizer.json",
    "audio": "commands sounds spoken",
    "arrays": "points scans stacked tiles",
    "tars": "frames shards things",
    "records": "old pets ranking",
}
_KEPT = ("arrays/stack/", "nested/walks.", "parquet/digits.", "shapes/", "table/wines.", "text/sentences/")
_KINDS = {name: kind for kind, names in _NAMES.items() for name in names.split()}


def sample_files(folder: Path) -> dict[str, bytes]:
    """Return the files by kind and name; pictures that tables of a kind name are in it, too."""
    write_page_data(folder)
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    named = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
    found = {f"{_KINDS.get(name.partition('/')[0], 'photos')}/{name}": data for name, data in named.items()}
    photos = {name: data for name, data in named.items() if name.startswith("photos/") or name == "meta.csv"}
    found |= {f"{kind}/{name}": data for kind in ("kaggle", "photos") for name, data in photos.items()}
    with zipfile.ZipFile(ARCHIVE) as archive:
        return found | {name: archive.read(name) for name in archive.namelist() if name.startswith(_KEPT)}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        files = sample_files(Path(folder))
    with zipfile.ZipFile(ARCHIVE, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
