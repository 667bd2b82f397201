"""Write what scikit-learn carries as files: a table of 178 wines, FOLDER/wine.csv, and texts about data sets,
FOLDER/text/*.txt."""

import argparse
import csv
from importlib.resources import files
from pathlib import Path

from sklearn.datasets import load_wine


def write_wine(path: Path) -> int:
    """Write the wines with their class by name; returns how many there are."""
    wine = load_wine()
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*wine.feature_names, "cultivar"])
        writer.writerows([*row, wine.target_names[kind]] for row, kind in zip(wine.data, wine.target, strict=True))
    return len(wine.data)


def write_texts(folder: Path) -> int:
    """Write scikit-learn's descriptions of its data sets; returns how many there are."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = [file for file in files("sklearn.datasets.descr").iterdir() if file.name.endswith(".rst")]
    for file in texts:
        (folder / file.name).with_suffix(".txt").write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    return len(texts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    print(f"wrote {write_texts(folder / 'text')} texts and {write_wine(folder / 'wine.csv')} wines")
