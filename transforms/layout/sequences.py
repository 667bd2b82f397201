"""What becomes of the features of rows that are gathered into sequences."""

from dataclasses import replace

from shardmill.errors import UserError
from shardmill.features.feature import Feature, Features
from shardmill.transforms.layout.column_names import nearest
from shardmill.transforms.layout.table_layout import TableLayout
from shardmill.transforms.sequences.options import Sequencing


def sequence_layout(layout: TableLayout, how: Sequencing, source: str) -> TableLayout:
    """The layout with a list in the place of each column but that of the id and the labels, of which a sequence has one
    value.

    Args:
      layout: of a table; without features where no row could be read.
      how: what rows are gathered by.
      source: how errors call the input.

    Raises:
      UserError: there is no such column, it orders nothing, or a column cannot be a list.
    """
    if not layout.features:
        return layout
    names = [feature.name for feature in layout.features]
    for flag, name in (("--sequence_by", how.id), ("--order_by", how.time)):
        if name not in names:
            raise UserError(f"{flag} {name}: no such column in what is read of {source}; {nearest(name, names)}")
    by_name = {feature.name: feature for feature in layout.features}
    if by_name[how.id].shape:
        raise UserError(f"--sequence_by {how.id}: the column holds lists; expected one value in each row")
    if by_name[how.time].shape or by_name[how.time].kind in ("bool", "class_label"):
        raise UserError(
            f"--order_by {how.time}: the column orders nothing; expected numbers, or dates and times as ISO 8601 has"
            " them"
        )
    constant = {how.id, *layout.required_labels, *layout.class_names, *layout.separated}
    features = tuple(
        _constant(each) if each.name in constant else _listed(each, layout.images) for each in layout.features
    )
    return replace(layout, features=features)


def ungathered(features: Features) -> Features:
    """What rows hold whose sequences have these features; features of rows stay as they are."""
    return tuple(replace(each, shape=each.shape[1:]) if each.shape[:1] == (None,) else each for each in features)


def _constant(feature: Feature) -> Feature:
    if feature.shape:
        raise UserError(
            f"--label {feature.name} holds lists, and a sequence has one label; leave out --sequence_by, or --label"
        )
    return replace(feature, required=True)


def _listed(feature: Feature, images: tuple[str, ...]) -> Feature:
    if None in feature.shape or (feature.shape and feature.dtype == "bytes"):
        of = "of differing lengths" if None in feature.shape else "of texts"
        raise UserError(
            f"--sequence_by: column {feature.name!r} holds lists {of}, and lists of such are none that an example can"
            f" have; leave it out by --drop {feature.name}"
        )
    if feature.name in images:
        raise UserError(
            f"--sequence_by: column {feature.name!r} holds images, of which a sequence has none; leave it out by --drop"
            f" {feature.name}"
        )
    kind = "tensor" if feature.kind == "text" else feature.kind
    return replace(feature, kind=kind, shape=(None, *feature.shape), required=True)
