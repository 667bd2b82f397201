"""What becomes of the features of rows whose texts are tokenized."""

from dataclasses import replace

from shardmill.errors import UserError
from shardmill.features.feature import Feature
from shardmill.kinds.registry import kind_of
from transforms.inputs.folders import quoted
from transforms.layout.column_names import nearest
from transforms.layout.table_layout import TableLayout
from transforms.tokens.tokenize import INPUT_IDS, Tokenization


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
    names = [feature.name for feature in layout.features]
    text = next((feature for feature in layout.features if feature.name == how.column), None)
    if text is None:
        raise UserError(
            f"--tokenize {how.column}: no such column in what is read of {source}; {nearest(how.column, names)}"
        )
    if text.dtype != "bytes" or text.shape or kind_of(text).has_classes:
        holds = "classes" if kind_of(text).has_classes else f"{'lists of ' if text.shape else ''}{text.dtype}"
        raise UserError(f"--tokenize {how.column}: the column holds {holds}; expected one text in each row")
    if INPUT_IDS in names:
        raise UserError(
            f"--tokenizer: {source} has a column {INPUT_IDS!r} already, which the tokens are called; leave it out by"
            f" --drop {INPUT_IDS}"
        )
    said = tuple(
        f"{how.file.name} says {name} of lists of tokens, which was passed over:"
        f" {'--max_length cuts them' if name == 'truncation' else 'they are as long as they are'}"
        for name in how.file.unheeded
    )
    if how.is_packed:
        return _packed(layout, how, said)
    ids = Feature(INPUT_IDS, "int64", shape=(None,))
    features = []
    for feature in layout.features:
        if feature is not text:
            features.append(feature)
        else:
            features += [replace(text, required=True), ids] if how.keep_text else [ids]
    return replace(layout, features=tuple(features), notices=(*layout.notices, *said))


def _packed(layout: TableLayout, how: Tokenization, said: tuple[str, ...]) -> TableLayout:
    left_out = [feature.name for feature in layout.features if feature.name != how.column]
    if left_out:
        said = (*said, f"left out {quoted(left_out)}: a block has parts of several texts, and nothing but their tokens")
    return replace(
        layout,
        types={name: column for name, column in layout.types.items() if name == how.column},
        features=(Feature(INPUT_IDS, "int64", shape=(how.pack_to,)),),
        labels=(),
        required_labels=(),
        images=(),
        target=None,
        notices=(*layout.notices, *said),
    )
