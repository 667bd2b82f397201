"""What a user says of tokens."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from shardmill.errors import UserError
from shardmill.transforms.options.declare import Options, flag
from shardmill.transforms.options.given_files import read_given
from shardmill.transforms.tokens.tokenizer import TokenizerFile

if TYPE_CHECKING:
    from shardmill.transforms.tokens.tokenize import Tokenization

# What the tokenizers of published language models call the token behind a text
_ENDS = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|eos|>", "[EOS]", "<|im_end|>")


def read_tokenizer(value: Any) -> Any:
    """The TokenizerFile at a path; raises a UserError where it cannot be read, or is none."""
    if isinstance(value, TokenizerFile):
        return value
    return TokenizerFile.of(str(value).rpartition("/")[2], read_given("tokenizer", str(value)))


def _at_least(least: int) -> Any:
    return lambda number: None if number >= least else f"expected at least {least}"


@dataclass(frozen=True, kw_only=True)
class TokenOptions(Options):
    """Texts as token ids."""

    title: ClassVar[str] = "tokens"

    tokenizer: Any = flag(
        None,
        "a tokenizer.json of Hugging Face's tokenizers: texts become input_ids",
        parse=read_tokenizer,
        told=False,
        to_json=lambda file: file.to_json(),
    )
    tokenize: str | None = flag(
        None, "the column that holds the texts", told=False, default_words="text, the lines of text files"
    )
    max_length: int | None = flag(None, "tokens of an example; what follows is cut", check=_at_least(1), told=False)
    pack_to: int | None = flag(
        None,
        "tokens of a block: texts, each with an end-of-text token, one after the other, cut into such blocks",
        check=_at_least(2),
        told=False,
    )
    end_of_text: str | None = flag(
        None, "the token behind each text, for --pack_to", told=False, default_words="the tokenizer's, if it is known"
    )
    keep_text: bool = flag(False, "the text, too, beside its input_ids", told=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("tokenize", "max_length", "pack_to", "end_of_text", "keep_text"):
            if self.tokenizer is None and getattr(self, name) not in (None, False):
                raise UserError(f"--{name} needs --tokenizer, a tokenizer.json of Hugging Face's tokenizers")
        if self.end_of_text is not None and self.pack_to is None:
            raise UserError("--end_of_text needs --pack_to: an example that is one text ends where its tokens end")
        if self.keep_text and self.pack_to is not None:
            raise UserError("--keep_text and --pack_to: a block has parts of several texts; leave one of them out")
        if self.tokenizer is not None and self.pack_to is not None:
            _ = self.end  # sought to be checked
        if self.max_length is not None and self.pack_to is None:
            around = self.tokenizer.load().num_special_tokens_to_add(False)
            if self.max_length <= around:
                raise UserError(
                    f"--max_length {self.max_length}: {self.tokenizer.name} puts {around} tokens around each text, so"
                    " nothing of the text is left"
                )

    @property
    def end(self) -> tuple[str, int]:
        """The token behind each text and its id, where they are packed.

        Raises:
          UserError: the vocabulary has no such token, or its id is beyond; or none was given, and which it is cannot be
            known.
        """
        file: TokenizerFile = self.tokenizer
        token = self.end_of_text
        if token is None:
            known = [name for name in file.special_tokens() if name in _ENDS]
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
        if number >= file.size:
            raise UserError(
                f"--end_of_text {token}: its id, {number:,}, is above the vocabulary of {file.name}, whose"
                f" {file.size:,} tokens have the ids from 0"
            )
        return token, number

    @property
    def tokenization(self) -> "Tokenization | None":
        """What becomes of texts; None where they stay as they are."""
        if self.tokenizer is None:
            return None
        from shardmill.transforms.tokens.tokenize import Tokenization

        end = self.end[1] if self.pack_to is not None else None
        return Tokenization(self.tokenizer, self.tokenized, self.max_length, self.pack_to, end, self.keep_text)

    @property
    def tokenized(self) -> tuple[str, ...]:
        """The columns that hold texts."""
        return (self.tokenize or "text",)
