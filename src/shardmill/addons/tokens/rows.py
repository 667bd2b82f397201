"""The hooks by which texts of rows become tokens."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardmill.addons.tokens.encoding import Tokens, decode_texts, encode, find_special_tokens
from shardmill.addons.tokens.options import TokenizerFile, TokenOptions
from shardmill.addons.tokens.packing import INPUT_IDS, Packing
from shardmill.data.features import Feature, Features, Renames
from shardmill.data.kinds import kind_of
from shardmill.errors import JobError, UserError
from shardmill.flag_values import quote
from shardmill.text import describe_place, plural
from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.features.rows import Flags, RowAddOn, RowBatch, Written
from shardmill.transforms.findings import Finding, Findings, Occurrences, merged_by
from shardmill.transforms.inputs.folders import quote_names
from shardmill.transforms.layout.columns import Columns, suggest_column
from shardmill.transforms.layout.options import TableOptions
from shardmill.transforms.layout.tables import TableLayout

if TYPE_CHECKING:
    from shardmill.pipelines.config.records import RecordsConfig

_TEXT = ColumnType("bytes", None, 0)
# Notices about settings of a tokenizer's file that shardmill ignores
_IGNORED_SETTINGS = {
    "truncation": "truncation of lists of tokens, which is ignored: --max_length cuts them",
    "padding": "padding of lists of tokens, which is ignored: each list keeps its length",
    "dropout": "dropout of merges, which is ignored: tokens would differ each time",
}


@dataclass(frozen=True, slots=True)
class TokenCuts(Finding):
    """The texts that were cut, and the special tokens in texts."""

    rank: ClassVar[int] = 30
    texts: int = 0
    cut: int = 0  # of the texts
    lost: int = 0  # tokens
    max_length: int = merged_by(max, default=0)  # tokens of a text at most
    special: dict[str, Occurrences] = field(default_factory=dict)  # by token, with the first row by file and line
    tokenizer: str = ""  # name of its file
    special_as_text: bool = False  # True if --special_tokens text is given

    def notices(self, flags: TableOptions, rows: int) -> Iterator[str]:
        if self.special:
            special = sorted(self.special.items())
            tokens = ", ".join(f"{t!r} {plural(n, 'time')} (first: {describe_place(*at)})" for t, (n, at) in special)
            remedy = "" if self.special_as_text else "; --special_tokens text encodes them as other characters"
            yield f"texts hold special tokens of {self.tokenizer}, which became these tokens: {tokens}{remedy}"
        if self.cut:
            yield (
                f"{self.cut:,} of {self.texts:,} texts had more than --max_length {self.max_length} tokens and were"
                f" cut: {self.lost:,} tokens were lost"
            )


@dataclass(frozen=True)
class Tokenization(RowAddOn):
    """The replacement of texts by their tokens, or of all texts of a split by blocks of their tokens."""

    options: TokenOptions
    columns: tuple[str, ...]  # columns of texts: one, or one for each parallel text
    renames: Renames  # names of the features in examples
    is_balanced: bool  # True for shards of equally many tokens
    unit: str = "text"  # of what is one text: a text of a column, or a line, paragraph or file of text

    @classmethod
    def of(cls, options: TokenOptions, config: "RecordsConfig") -> "Tokenization":
        """Return the tokenization of a job."""
        columns = config.languages or (options.tokenize or "text",)
        is_text = config.spec.unit == "line" and not config.separator
        unit = config.text_unit.replace("auto", "line") if is_text else "text"
        return cls(options, columns, config.renames, config.balance == "tokens", unit)

    @cached_property
    def file(self) -> TokenizerFile:
        """The tokenizer."""
        return replace(self.options.tokenizer, special_as_text=self.options.special_tokens == "text")

    @property
    def token_columns(self) -> dict[str, str]:
        """The name of the token column for each text column."""
        if len(self.columns) == 1:
            return {self.columns[0]: INPUT_IDS}
        return {column: f"{INPUT_IDS}_{column}" for column in self.columns}

    def rename_texts(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(self.token_columns.get(column, column) for column in columns)

    def restore_features(self, features: Features, schema_name: str) -> Features:
        columns = {ids: column for column, ids in self.token_columns.items()}
        shape = (self.options.pack_to,)
        known = {feature.name for feature in features}
        for ids, column in columns.items():
            if not known & {ids, column}:
                raise UserError(f"--tokenizer: {schema_name} has neither {ids!r} nor the column of texts, {column!r}")
        rows = []
        for feature in features:
            if feature.name not in columns:
                rows.append(feature)
                continue
            if (feature.dtype, feature.shape) != ("int64", shape):
                wanted, holds = _format_type("int64", shape), _format_type(feature.dtype, feature.shape)
                raise UserError(f"{schema_name} says that {feature.name!r} is {holds}; with these flags it is {wanted}")
            if columns[feature.name] not in known:
                rows.append(Feature(columns[feature.name], "bytes", "text", required=False))
        return tuple(rows)

    def change_columns(self, columns: Columns, inferred: Any, options: Any) -> Columns:
        """Read one text in each row: a list among texts is a reject of its row."""
        mixed = [name for name in self.token_columns if name in columns.types and columns.types[name].length == -1]
        features = tuple(replace(each, shape=()) if each.name in mixed else each for each in columns.features)
        return replace(columns, types=columns.types | dict.fromkeys(mixed, _TEXT), features=features)

    def change_layout(self, layout: TableLayout, source: str) -> TableLayout:
        texts = {column: _find_text(layout, column, ids, source) for column, ids in self.token_columns.items()}
        notices = tuple(f"{self.file.name} says {_IGNORED_SETTINGS[name]}" for name in self.file.ignored_settings)
        if self.options.pack_to is not None:
            return self._pack_layout(layout, self.options.pack_to, notices)
        features: list[Feature] = []
        for feature in layout.features:
            if texts.get(feature.name) is not feature:
                features.append(feature)
            else:
                ids = Feature(self.token_columns[feature.name], "int64", shape=(None,))
                features += [replace(feature, required=True), ids] if self.options.keep_text else [ids]
        return replace(layout, features=tuple(features), notices=(*layout.notices, *notices))

    def _pack_layout(self, layout: TableLayout, block: int, notices: tuple[str, ...]) -> TableLayout:
        dropped = [feature.name for feature in layout.features if feature.name not in self.columns]
        if dropped:
            notices = (
                *notices,
                f"left out {quote_names(dropped)}: a block has parts of several texts, and nothing but their tokens",
            )
        return replace(
            layout,
            types={name: column for name, column in layout.types.items() if name == self.columns[0]},
            features=(Feature(INPUT_IDS, "int64", shape=(block,)),),
            labels=(),
            required_labels=(),
            images=(),
            target=None,
            notices=(*layout.notices, *notices),
        )

    def prepare(self, rows: RowBatch) -> None:
        """Add the tokens of each row, and reject the rows that have none.

        Rows without text in UTF-8 are rejected, and rows for which the tokenizer fails or makes no token. So are rows
        with a token id beyond the vocabulary, for which a model has no embedding.
        """
        cut_tokens, special = [], []
        for column, name in self.token_columns.items():
            tokens = self._encode(rows, column)
            special += find_special_tokens(self.file, rows.batch[column])
            rows.batch = rows.batch.append_column(name, tokens.ids)
            cut_tokens.append(tokens.cut_tokens)
        lost = np.stack(cut_tokens)

        def count(good: Flags) -> TokenCuts:
            found = Findings()
            for row, token in special:
                if good[row]:
                    found.add(TokenCuts(special={token: Occurrences(1, (rows.file, int(rows.lines[row])))}))
            return TokenCuts(
                lost[:, good].size,
                int((lost[:, good] > 0).sum()),
                int(lost[:, good].sum()),
                self.options.max_length or 0,
                found.find(TokenCuts).special,
                self.file.name,
                self.file.special_as_text,
            )

        rows.counters.append(count)

    def _encode(self, rows: RowBatch, name: str) -> Tokens:
        column, file = rows.batch[name], self.file
        rows.reject(rows.is_missing(name), lambda _: f"no text: column {name!r} has no value")
        texts, invalid = decode_texts(column)
        rows.reject(invalid, lambda _: f"the text in column {name!r} is not UTF-8, which a tokenizer reads")
        limit = self.options.max_length
        tokens = encode(file, texts, add_special_tokens=self.options.pack_to is None, max_tokens=limit)
        vocabulary = file.vocabulary_size
        prefix = f"{name!r}: " if len(self.columns) > 1 else ""
        refused = np.isin(np.arange(len(texts)), list(tokens.errors))
        rows.reject(refused, lambda row: f"{prefix}{file.name} makes no tokens of the text: {tokens.errors[row]}")
        rows.reject(tokens.max_ids < 0, lambda _: f"{prefix}an empty text: {file.name} makes no token of it")
        rows.reject(
            tokens.max_ids >= vocabulary,
            lambda row: (
                f"{prefix}{file.format_token(int(tokens.max_ids[row]))} is above the vocabulary of {file.name}, whose"
                f" {vocabulary:,} tokens have the ids from 0"
            ),
        )
        return tokens

    @property
    def assembly(self) -> Packing | None:
        block = self.options.pack_to
        return None if block is None else Packing(block, self.options.end_token[1], self.renames(INPUT_IDS))

    @property
    def weigh(self) -> Callable[[pa.RecordBatch], np.ndarray] | None:
        return self._count_tokens if self.is_balanced and self.options.pack_to is None else None

    def _count_tokens(self, features: pa.RecordBatch) -> Any:
        return sum(pc.list_value_length(features[name]).to_numpy() for name in self.token_columns.values())

    def describe(self, written: Written) -> tuple[dict[str, dict[str, int]], list[str]]:
        tokens, block = self._count_by_split(written), self.options.pack_to
        return {"tokens": tokens}, [] if block is None else self._describe_blocks(written, tokens, block)

    def _count_by_split(self, written: Written) -> dict[str, int]:
        if self.options.pack_to is None:
            return {
                split: sum(stats.count_values(name) for name in self.token_columns.values())
                for split, stats in written.stats.items()
            }
        tokens = dict.fromkeys(written.stats, 0)
        for shard in written.shards:
            tokens[shard.name.split] += shard.examples * self.options.pack_to
        return tokens

    def _describe_blocks(self, written: Written, tokens: Mapping[str, int], block: int) -> list[str]:
        notices = []
        for split, stats in written.stats.items():
            if (lengths := stats.numeric_range(INPUT_IDS)) is None:
                continue
            documents, every = lengths.sums.count, lengths.sums.total + lengths.sums.count  # with an end token each
            left = every - tokens[split]
            if not 0 <= left < block:
                raise JobError(f"split {split!r}: {every:,} tokens are in documents, but {tokens[split]:,} in blocks")
            joined = "; --record paragraph or --record file joins lines to one text" if self.unit == "line" else ""
            notices.append(
                f"split {split!r}: {documents:,} {self.unit}s, each with {self.options.end_token[0]!r} behind it, are"
                f" {every:,} tokens: {tokens[split] // block:,} blocks of {block:,}; the last {left:,} tokens fill none"
                f" and were dropped{joined}"
            )
        return notices


def _format_type(dtype: str, shape: tuple[int | None, ...]) -> str:
    return f"{dtype}[{', '.join('any number' if size is None else str(size) for size in shape)}]"


def _find_text(layout: TableLayout, column: str, ids: str, source: str) -> Feature:
    names = [feature.name for feature in layout.features]
    text = next((feature for feature in layout.features if feature.name == column), None)
    if text is None:
        raise UserError(f"--tokenize {column}: no such column in {source}; {suggest_column(column, names)}")
    if text.dtype != "bytes" or text.shape or kind_of(text).has_classes:
        holds = "classes" if kind_of(text).has_classes else f"{'lists of ' if text.shape else ''}{text.dtype}"
        raise UserError(f"--tokenize {column}: the column holds {holds}; expected one text in each row")
    if ids in names:
        raise UserError(
            f"--tokenizer: {source} has a column {ids!r} already, which the tokens are called; leave it out by"
            f" --drop {quote(ids)}"
        )
    return text
