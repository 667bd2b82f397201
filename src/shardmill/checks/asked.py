"""The Schema of tensorflow-metadata that a version is held to, and the thresholds of its comparators.

A comparator's threshold is an error, and takes the place of the one that checks have for all features. The proto is
imported where it is needed: options are parsed without it.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardmill.checks.limits import Limits, LimitsByCheck

if TYPE_CHECKING:
    from tensorflow_metadata.proto.v0 import schema_pb2

COMPARED = ("drift", "skew")


@dataclass(frozen=True, slots=True)
class Constraints:
    """A Schema, as far as it asks for anything.

    Attributes:
      text: of the Schema, which is what travels to workers.
    """

    text: str

    @classmethod
    def from_pbtxt(cls, text: str) -> "Constraints":
        """The constraints in the text of a `schema.pbtxt`.

        Raises:
          google.protobuf.text_format.ParseError: it is not the text of a Schema.
        """
        made = cls(text)
        made.schema()
        return made

    def schema(self) -> "schema_pb2.Schema":
        """The proto."""
        from google.protobuf import text_format
        from tensorflow_metadata.proto.v0 import schema_pb2

        return text_format.Parse(self.text, schema_pb2.Schema())

    def limits(self) -> dict[str, LimitsByCheck]:
        """The thresholds of comparators, by feature and check."""
        found: dict[str, LimitsByCheck] = {}
        for feature in self.schema().feature:
            of_feature: dict[str, Limits] = {}
            for check in COMPARED:
                comparator = getattr(feature, f"{check}_comparator")
                if comparator.infinity_norm.HasField("threshold"):
                    limit = Limits(error=comparator.infinity_norm.threshold)
                    of_feature |= {f"label_{check}": limit, f"string_{check}": limit}
                if comparator.jensen_shannon_divergence.HasField("threshold"):
                    of_feature[f"numeric_{check}"] = Limits(error=comparator.jensen_shannon_divergence.threshold)
            if of_feature:
                found[feature.name] = of_feature
        return found
