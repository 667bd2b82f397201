"""The schema that a job over records is given: a file's, or that of a version which is kept."""

from dataclasses import dataclass, field
from typing import Any

from shardmill.errors import UserError
from shardmill.features.feature import Features
from shardmill.transforms.options.given_files import read_given


@dataclass(frozen=True, slots=True)
class GivenSchema:
    """What --schema says.

    Attributes:
      features: that there are.
      asked: of them, beside what they are; see shardmill.metadata.asked_schema.
      kept_of: the version whose schema this is; "" where it is that of --schema.
    """

    features: Features
    asked: str = ""
    kept_of: str = field(default="", compare=False)

    @property
    def said(self) -> str:
        """Where it comes from, in words."""
        return f"the kept schema of version {self.kept_of}" if self.kept_of else "--schema"

    @classmethod
    def from_pbtxt(cls, text: str) -> "GivenSchema":
        """What the text of a schema.pbtxt says; raises as shardmill.metadata.schema.from_pbtxt."""
        from shardmill.metadata import asked_schema, schema

        return cls(schema.from_pbtxt(text), asked_schema.asked_of(text))


def read_schema(value: Any) -> GivenSchema:
    """What the schema.pbtxt at a path says; features that are given themselves stay as they are.

    Raises:
      UserError: it cannot be read, or is no schema.
    """
    if not isinstance(value, str):
        return value if isinstance(value, GivenSchema) else GivenSchema(tuple(value))
    from google.protobuf import text_format

    try:
        given = GivenSchema.from_pbtxt(read_given("schema", value).decode())
    except (UnicodeDecodeError, text_format.ParseError, ValueError) as error:
        raise UserError(f"--schema {value} is not a tensorflow-metadata Schema in text form: {error}") from None
    names = [feature.name for feature in given.features]
    twice = next((name for name in names if names.count(name) > 1), None)
    if not names or "" in names or twice is not None:
        problem = (
            f"has feature {twice!r} twice" if twice else "has a feature without a name" if names else "has no features"
        )
        raise UserError(f"--schema {value} {problem}; expected features with names that differ")
    return given
