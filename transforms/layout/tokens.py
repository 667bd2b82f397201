"""What becomes of the features of rows whose texts are tokenized."""

from dataclasses import replace

from shardmill.errors import UserError
from shardmill.features.feature import Feature, Features
from shardmill.kinds.registry import kind_of
from shardmill.transforms.inputs.folders import quoted
from shardmill.transforms.layout.column_names import nearest
from shardmill.transforms.layout.table_layout import TableLayout
from shardmill.transforms.tokens.tokenize import INPUT_IDS, Tokenization

# What is said where the file of a tokenizer says it
_UNHEEDED = {
    "truncation": "truncation of lists of tokens, which was passed over: --max_length cuts them",
    "padding": "padding of lists of tokens, which was passed over: they are as long as they are",
    "dropout": "dropout of merges, which was passed over: tokens would be others each time",
}


def tokenized_layout(layout: TableLayout, how: Tokenization, source: str) -> TableLayout:
    """The layout with `input_ids` in the place of the text, or behind it; where texts are packed, with nothing else.

    Args:
      layout: of a table, or of lines of text; without features where no row could be read.
      how: what becomes of texts.
      source: how errors call the input.

    Raises:
      UserError: there is no such column, it holds no text, or `input_ids` is a column already.
    """
    if not layout.features:
        return layout
    texts = {column: _text(layout, column, ids, source) for column, ids in how.ids.items()}
    said = tuple(f"{how.file.name} says {_UNHEEDED[name]}" for name in how.file.unheeded)
    if how.is_packed:
        return _packed(layout, how, said)
    features: list[Feature] = []
    for feature in layout.features:
        if texts.get(feature.name) is not feature:
            features.append(feature)
        else:
            ids = Feature(how.ids[feature.name], "int64", shape=(None,))
            features += [replace(feature, required=True), ids] if how.keep_text else [ids]
    return replace(layout, features=tuple(features), notices=(*layout.notices, *said))


def _text(layout: TableLayout, column: str, ids: str, source: str) -> Feature:
    """The feature that holds texts, whose tokens are called `ids`."""
    names = [feature.name for feature in layout.features]
    text = next((feature for feature in layout.features if feature.name == column), None)
    if text is None:
        raise UserError(f"--tokenize {column}: no such column in what is read of {source}; {nearest(column, names)}")
    if text.dtype != "bytes" or text.shape or kind_of(text).has_classes:
        holds = "classes" if kind_of(text).has_classes else f"{'lists of ' if text.shape else ''}{text.dtype}"
        raise UserError(f"--tokenize {column}: the column holds {holds}; expected one text in each row")
    if ids in names:
        raise UserError(
            f"--tokenizer: {source} has a column {ids!r} already, which the tokens are called; leave it out by"
            f" --drop {ids}"
        )
    return text


def untokenized(features: Features, how: Tokenization, said: str) -> Features:
    """What rows hold whose texts became tokens in these features, or will: with the text in the place of `input_ids`.

    Args:
      features: of a schema, of examples or of rows.
      how: what becomes of texts.
      said: how errors call the schema.

    Raises:
      UserError: there is neither, or the tokens of an example are others than will be.
    """
    columns = {ids: column for column, ids in how.ids.items()}
    known = {feature.name for feature in features}
    for ids, column in columns.items():
        if not known & {ids, column}:
            raise UserError(f"--tokenizer: {said} has neither {ids!r} nor the column of texts, {column!r}")
    rows = []
    for feature in features:
        if feature.name not in columns:
            rows.append(feature)
            continue
        if (feature.dtype, feature.shape) != ("int64", (how.pack_to,)):
            wanted = _in_words("int64", (how.pack_to,))
            holds = _in_words(feature.dtype, feature.shape)
            raise UserError(f"{said} says that {feature.name!r} is {holds}; with these flags it is {wanted}")
        if columns[feature.name] not in known:
            rows.append(Feature(columns[feature.name], "bytes", "text", required=False))
    return tuple(rows)


def _in_words(dtype: str, shape: tuple[int | None, ...]) -> str:
    return f"{dtype}[{', '.join('any number' if size is None else str(size) for size in shape)}]"


def _packed(layout: TableLayout, how: Tokenization, said: tuple[str, ...]) -> TableLayout:
    left_out = [feature.name for feature in layout.features if feature.name not in how.columns]
    if left_out:
        said = (*said, f"left out {quoted(left_out)}: a block has parts of several texts, and nothing but their tokens")
    return replace(
        layout,
        types={name: column for name, column in layout.types.items() if name == how.columns[0]},
        features=(Feature(INPUT_IDS, "int64", shape=(how.pack_to,)),),
        labels=(),
        required_labels=(),
        images=(),
        target=None,
        notices=(*layout.notices, *said),
    )
