"""Print as JSON how TFDV judges data sets: run by a Python without shardmill.

tfdv_says.py DIRECTORY…     of versions
"""

import json
import sys
from pathlib import Path
from typing import Any

import tensorflow_data_validation as tfdv
from tensorflow_data_validation.utils.display_util import get_statistics_html


def said(directory: Path) -> dict[str, Any]:
    """By split what is wrong with it by our schema; by feature the type that TFDV infers from the statistics; how long
    the page is that compares the first split with the last."""
    stats = tfdv.load_stats_binary(str(directory / "FeatureStats.pb"))
    names = [dataset.name for dataset in stats.datasets]
    splits = {name: tfdv.get_slice_stats(stats, name) for name in names}
    schema = tfdv.load_schema_text(str(directory / "schema.pbtxt"))
    anomalies = {name: tfdv.validate_statistics(split, schema).anomaly_info for name, split in splits.items()}
    types = {feature.name: feature.type for feature in tfdv.infer_schema(splits[names[0]]).feature}
    ours = {feature.name: feature.type for feature in schema.feature}
    return {
        "anomalies": {
            name: {feature: one.description for feature, one in found.items()} for name, found in anomalies.items()
        },
        "types": {name: [kind, ours.get(name)] for name, kind in types.items() if ours.get(name) != kind},
        "page": len(get_statistics_html(splits[names[0]], splits[names[-1]])),
    }


if __name__ == "__main__":
    print(json.dumps({directory: said(Path(directory)) for directory in sys.argv[1:]}))
