"""Write a DataFrame as a data set, without a file: scikit-learn's 178 wines, with their cultivar as the label.

python examples/from_dataframe.py datasets
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from sklearn.datasets import load_wine

import shardmill


def main(arguments: Sequence[str] | None = None) -> shardmill.Published:
    """Write the wines to the folder that `arguments` name, and return the version."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path, help="folder of data sets")
    output = parser.parse_args(arguments).output
    wine = load_wine(as_frame=True)
    frame = wine.frame.assign(cultivar=wine.target_names[wine.target]).drop(columns="target")
    return shardmill.write(
        frame,
        output=output,
        name="wine_frame",
        label="cultivar",
        splits={"train": 0.8, "test": 0.2},
        stratify_by="label",
        overwrite=True,
    )


if __name__ == "__main__":
    print(main())
