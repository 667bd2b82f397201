"""The names of classes as a label map, which TensorFlow's Object Detection API is given beside its records.

It is the text of a StringIntLabelMap (object_detection/protos/string_int_label_map.proto): an item for each class, with
ids from 1.
"""

from collections.abc import Sequence

from google.protobuf import text_encoding


def to_label_map(class_names: Sequence[str]) -> str:
    """The text; `class_names` by their ids, of which 0 is that of no object."""
    return "".join(
        f'item {{\n  id: {number}\n  name: "{text_encoding.CEscape(name, as_utf8=True)}"\n}}\n'
        for number, name in enumerate(class_names)
        if number
    )
