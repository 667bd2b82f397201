"""What transforms are told of splits and labels, from single values."""

from fractions import Fraction
from typing import Any

from shardmill.transforms.options.image_options import LabelOptions
from shardmill.transforms.options.job_options import SplitOptions

_OF_SPLITS = ("splits", "group_by", "stratify_by", "seed", "split_seed", "no_shuffle")
_OF_LABELS = ("labels", "on_new_label")


def grouped(**options: Any) -> dict[str, Any]:
    """`options` with those of SplitOptions as `split` and those of LabelOptions as `classes`."""
    split = {name: options.pop(name) for name in _OF_SPLITS if name in options}
    if split.get("group_by") or split.get("stratify_by"):
        split.setdefault("splits", (("train", Fraction(1)),))
    classes = {name: options.pop(name) for name in _OF_LABELS if name in options}
    return {"split": SplitOptions(**split), "classes": LabelOptions(**classes), **options}
