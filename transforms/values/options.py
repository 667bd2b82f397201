"""Options of sequences, tokens and preprocessing."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

from shardmill.errors import UserError
from shardmill.installed import install_hint
from shardmill.text import END_TOKENS
from shardmill.transforms.options.declare import Options, flag, read_option_file
from shardmill.transforms.options.job_options import TRAINING, parse_names
from shardmill.transforms.values.tokenizer import TokenizerFile

if TYPE_CHECKING:
    from shardmill.transforms.values.analyzers import Analysis
    from shardmill.transforms.values.tokens_encoding import Tokenization
    from shardmill.transforms.values.user_function import UserFunction


def _optional(default: Any, text: str, **attributes: Any) -> Any:
    """Return an option that a manifest records only if it is given."""
    return flag(default, text, is_always_recorded=False, **attributes)


@dataclass(frozen=True, slots=True)
class Sequencing:
    """The columns that gather rows into sequences."""

    id: str  # column whose equal values form a sequence
    time: str  # column that orders the rows


@dataclass(frozen=True, kw_only=True)
class SequenceOptions(Options):
    """Flags that gather rows into sequences."""

    title: ClassVar[str] = "features"

    sequence_by: str | None = _optional(
        None,
        "Column that groups rows: all rows with the same value become one example, with a list for each other column",
    )
    order_by: str | None = _optional(None, "Column by which the rows of a sequence are sorted, for --sequence_by")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sequence_by is not None and self.order_by is None:
            raise UserError(
                f"--sequence_by {self.sequence_by} needs --order_by, the column that says in which order the rows of a"
                " sequence are, such as a time or a number"
            )
        if self.order_by is not None and self.sequence_by is None:
            raise UserError(f"--order_by {self.order_by} needs --sequence_by, the column that says which rows are one")
        if self.order_by is not None and self.order_by == self.sequence_by:
            raise UserError(f"--sequence_by and --order_by are both {self.order_by}: its rows have no order")

    @property
    def sequencing(self) -> Sequencing | None:
        """The columns by which rows are gathered; None if each row is an example."""
        if self.sequence_by is None or self.order_by is None:
            return None
        return Sequencing(self.sequence_by, self.order_by)


def read_tokenizer(value: Any) -> Any:
    """Return the TokenizerFile at a path; raise UserError if it cannot be read, or is not a tokenizer."""
    if isinstance(value, TokenizerFile):
        return value
    return TokenizerFile.from_bytes(str(value).rpartition("/")[2], read_option_file("tokenizer", str(value)))


def _at_least(least: int) -> Any:
    return lambda number: None if number >= least else f"expected at least {least}"


@dataclass(frozen=True, kw_only=True)
class TokenOptions(Options):
    """Flags that convert texts to token ids."""

    title: ClassVar[str] = "tokens"

    tokenizer: Any = _optional(
        None,
        "Hugging Face tokenizer.json that turns texts into the feature input_ids",
        parse=read_tokenizer,
        to_json=lambda file: file.to_json(),
    )
    tokenize: str | None = _optional(
        None, "Column with the texts to tokenize", default_words="text, the lines of text files"
    )
    max_length: int | None = _optional(
        None, "Maximum number of tokens of an example; longer texts are cut", check=_at_least(1)
    )
    pack_to: int | None = _optional(
        None,
        "Number of tokens of a block: texts are joined, each with an end-of-text token, and cut into"
        " blocks of this size",
        check=_at_least(2),
    )
    end_of_text: str | None = _optional(
        None, "Token that ends each text, for --pack_to", default_words="the tokenizer's, if it is known"
    )
    special_tokens: str = _optional(
        "token",
        "Encoding of special tokens in texts, such as <|endoftext|>: as the token, or as ordinary text",
        choices=("token", "text"),
    )
    keep_text: bool = _optional(False, "Store the text in addition to its input_ids")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("tokenize", "max_length", "pack_to", "end_of_text", "special_tokens", "keep_text"):
            if self.tokenizer is None and getattr(self, name) not in (None, False, "token"):
                raise UserError(f"--{name} needs --tokenizer, a tokenizer.json of Hugging Face's tokenizers")
        if self.end_of_text is not None and self.pack_to is None:
            raise UserError("--end_of_text needs --pack_to: an example that is one text ends where its tokens end")
        if self.keep_text and self.pack_to is not None:
            raise UserError("--keep_text and --pack_to: a block has parts of several texts; leave one of them out")
        if self.tokenizer is not None and self.pack_to is not None:
            _ = self.end_token  # sought to be checked
        if self.max_length is not None and self.pack_to is None:
            around = self.tokenizer.load().num_special_tokens_to_add(False)
            if self.max_length <= around:
                raise UserError(
                    f"--max_length {self.max_length}: {self.tokenizer.name} puts {around} tokens around each text, so"
                    " nothing of the text is left"
                )

    @property
    def end_token(self) -> tuple[str, int]:
        """The token after each packed text, and its id; raises UserError if unknown or not in the vocabulary."""
        file: TokenizerFile = self.tokenizer
        token = self.end_of_text
        if token is None:
            known = [name for name in file.special_tokens() if name in END_TOKENS]
            if len(known) != 1:
                special = file.special_tokens()
                has = f"has the special tokens {', '.join(special)}" if special else "has no special tokens"
                raise UserError(
                    f"--pack_to needs --end_of_text, the token between texts: {file.name} {has}, and none of them is"
                    " known to be the one" + (" alone" if known else "")
                )
            token = known[0]
        number = file.id_of(token)
        if number is None:
            raise UserError(f"--end_of_text {token}: {file.name} has no such token")
        if number >= file.vocabulary_size:
            raise UserError(
                f"--end_of_text {token}: its id, {number:,}, is above the vocabulary of {file.name}, whose"
                f" {file.vocabulary_size:,} tokens have the ids from 0"
            )
        return token, number

    @property
    def tokenization(self) -> "Tokenization | None":
        """The settings of tokenization; None if texts are kept as they are."""
        if self.tokenizer is None:
            return None
        from shardmill.transforms.values.tokens_encoding import Tokenization

        end = self.end_token[1] if self.pack_to is not None else None
        file = replace(self.tokenizer, special_as_text=self.special_tokens == "text")
        return Tokenization(file, self.text_columns, self.max_length, self.pack_to, end, self.keep_text)

    @property
    def text_columns(self) -> tuple[str, ...]:
        return (self.tokenize or "text",)


def read_transform(value: Any) -> Any:  # a Declaration, which takes a while to import, and few need
    """Return the Declaration in the transform.yaml at a path, or in a mapping of features as a recipe may hold it.

    Raises UserError if it cannot be read or has a mistake; the message names feature, key and line.
    """
    from shardmill.transforms.values.preprocessing_declaration import Declaration
    from shardmill.transforms.values.preprocessing_sources import parse_transform

    if isinstance(value, Declaration):
        return value
    if isinstance(value, Mapping):
        import yaml

        return parse_transform(yaml.safe_dump(dict(value), sort_keys=False).encode(), "transform")
    return parse_transform(read_option_file("transform", str(value)), str(value))


def read_module(value: Any) -> Any:
    """Return the PreprocessingModule in the file at a path, with the modules of its folder that it imports.

    Raises UserError if a file cannot be read or is not Python.
    """
    from shardmill.transforms.values.user_module import OPTION, PreprocessingModule

    if isinstance(value, PreprocessingModule):
        return value
    return PreprocessingModule.read(str(value), OPTION)


def _read_function(option: str, value: Any) -> Any:
    from shardmill.transforms.values.user_function import UserFunction

    return UserFunction.parse(option, value)


@dataclass(frozen=True, kw_only=True)
class MapOptions(Options):
    """Options that change records by a user's function before they are encoded."""

    title: ClassVar[str] = "features"

    map: Any = _optional(
        None,
        "Function of a dictionary that returns one, None to leave the record out, or a list of dictionaries, for"
        " example clean.py:clean_row",
        parse=partial(_read_function, "--map"),
        to_json=lambda function: function.to_json(),
        metavar="FILE.py:FUNCTION",
    )
    map_batches: Any = _optional(
        None,
        "Function of a pyarrow.RecordBatch that returns one, for example clean.py:clean_batch; faster than --map",
        parse=partial(_read_function, "--map_batches"),
        to_json=lambda function: function.to_json(),
        metavar="FILE.py:FUNCTION",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.map is not None and self.map_batches is not None:
            raise UserError("--map and --map_batches: records are changed by one function; leave one of them out")

    @property
    def function(self) -> "UserFunction | None":
        """The function of --map or --map_batches."""
        found: UserFunction | None = self.map if self.map is not None else self.map_batches
        return found


def read_previous_graph(value: Any) -> Any:
    """Return the PreviousGraph of the version at a path; raise UserError if it has none."""
    from shardmill.transforms.values.preprocessing_sources import PreviousGraph

    return value if isinstance(value, PreviousGraph) else PreviousGraph.read(str(value))


def is_making_graph(given: Mapping[str, Any]) -> bool:
    """Return True if a job with these options makes a transform graph, as far as unparsed options tell."""
    return any(given.get(name) is not None for name in ("transform", "transform_graph")) and _is_tft_installed()


def _is_tft_installed() -> bool:
    return find_spec("tensorflow_transform") is not None


@dataclass(frozen=True, kw_only=True)
class DeclaredOptions(Options):
    """Options of declared preprocessing, which training and serving share."""

    title: ClassVar[str] = "features"
    analyzing_flags: ClassVar[tuple[str, ...]] = ("transform",)  # the flags that take constants

    transform: Any = _optional(
        None,
        "File transform.yaml of feature transforms; saves a TensorFlow Transform graph with the raw examples",
        parse=read_transform,
        to_json=lambda declaration: declaration.to_json(),
    )
    analyze_splits: tuple[str, ...] = _optional(
        (),
        "Comma-separated splits from which --transform computes its constants",
        parse=parse_names,
        to_json=list,
        default_words=TRAINING,
    )

    transform_graph: Any = _optional(
        None,
        "Folder of a version, or of its data set, whose transform graph is used again",
        parse=read_previous_graph,
        to_json=lambda former: former.name,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.analyze_splits and all(getattr(self, name) is None for name in self.analyzing_flags):
            raise UserError(f"--analyze_splits needs {' or '.join(f'--{name}' for name in self.analyzing_flags)}")
        previous = self.transform_graph
        if previous is not None and self.transform is None:
            object.__setattr__(self, "transform", previous.declaration)
        if previous is not None and self.transform.to_json() != previous.declaration.to_json():
            raise UserError(
                f"--transform_graph {previous.directory}: its graph was made by another transform than --transform"
                " says; leave one of them out"
            )
        for given in self.analyzing_flags:
            if getattr(self, given) is not None and not _is_tft_installed():
                raise UserError(f"--{given} needs TensorFlow Transform; {install_hint('transform')}")

    @property
    def analyzed_splits(self) -> tuple[str, ...]:
        """The splits whose examples give the constants."""
        return self.analyze_splits or (TRAINING,)

    @property
    def analysis(self) -> "Analysis | None":
        """The analysis for --transform; None without it."""
        if self.transform is None:
            return None
        from shardmill.transforms.values.analyzers import Analysis

        return Analysis(self.transform, self.analyzed_splits, self.transform_graph)


@dataclass(frozen=True, kw_only=True)
class TransformOptions(DeclaredOptions):
    """Options of preprocessing for records: declared or programmed, and optionally applied to the written examples."""

    title: ClassVar[str] = "features"
    analyzing_flags: ClassVar[tuple[str, ...]] = ("transform", "module_file")

    module_file: Any = _optional(
        None,
        "Python file with preprocessing_fn(inputs), which makes a TensorFlow Transform graph with any of its analyzers",
        parse=read_module,
        to_json=lambda module: module.to_json(),
    )

    materialize: bool = _optional(False, "Write the examples that --transform makes instead of the raw ones")

    def __post_init__(self) -> None:
        for other in ("transform", "transform_graph"):
            if self.module_file is not None and getattr(self, other) is not None:
                raise UserError(f"--module_file and --{other}: each makes a transform graph; leave one of them out")
        if self.materialize and self.transform is None and self.transform_graph is None and self.module_file is None:
            raise UserError("--materialize needs --transform, --module_file, or --transform_graph")
        super().__post_init__()
