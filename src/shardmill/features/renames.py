"""The names that readers know features by, where they are not those of the input."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from shardmill.errors import UserError
from shardmill.features.feature import Features

_MAX_NAME_BYTES = 200  # a file of 255 may be named by it: that of a label


@dataclass(frozen=True, slots=True)
class Renames:
    """What `--rename` says: (the input's name, the name in examples) of each feature that has another.

    Raises:
      UserError: two say the same, or a name can be none.
    """

    pairs: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        for position, what in ((0, "renames {!r} twice"), (1, "calls two features {!r}")):
            names = [pair[position] for pair in self.pairs]
            if twice := [name for name in names if names.count(name) > 1]:
                raise UserError(f"--rename {what.format(twice[0])}")
        for old, new in self.pairs:
            if not new.isprintable() or len(new.encode(errors="replace")) > _MAX_NAME_BYTES:
                raise UserError(
                    f"--rename {old}={new!r}: expected a name that can be printed, of {_MAX_NAME_BYTES} bytes at most"
                )

    @classmethod
    def of(cls, configuration: Mapping[str, Any]) -> "Renames":
        """Those that stand in a manifest's configuration."""
        found = configuration.get("rename")
        pairs = found.items() if isinstance(found, dict) else ()
        return cls(tuple((str(old), str(new)) for old, new in pairs))

    def __call__(self, name: str) -> str:
        """The name in examples of what the input calls `name`."""
        return dict(self.pairs).get(name, name) if self.pairs else name

    def original(self, name: str) -> str:
        """What the input calls the feature that is `name` in examples."""
        return next((old for old, new in self.pairs if new == name), name)

    def check(self, names: Iterable[str]) -> None:
        """Raise a UserError if one of `names`, the features, is renamed to what another is called, or a name is no
        feature's."""
        known = list(names)
        for old, new in self.pairs:
            if old not in known:
                raise UserError(f"--rename {old}={new}: there is no feature {old!r}; they are {', '.join(known)}")
            if new in known and new not in dict(self.pairs):
                raise UserError(f"--rename {old}={new}: there is a feature {new!r} already; rename that one too")

    def features(self, features: Features) -> Features:
        """The features by their new names, in the same order."""
        return tuple(
            replace(feature, name=self(feature.name), original=feature.name)
            if self(feature.name) != feature.name
            else feature
            for feature in features
        )

    def undone(self, features: Features) -> Features:
        """The features of a renamed data set by the names of its input."""
        return tuple(replace(feature, name=self.original(feature.name), original="") for feature in features)


NO_RENAMES = Renames()
