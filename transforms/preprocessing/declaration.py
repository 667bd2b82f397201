"""What is declared of each feature: chains of steps, each of which gives one output. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shardmill.errors import UserError
from shardmill.features.feature import Feature
from shardmill.features.renames import NO_RENAMES, Renames
from shardmill.transforms.options.declare import ValueMistake
from shardmill.transforms.options.words import meant
from shardmill.transforms.preprocessing.steps import Bucketize, Log1p, Needs, Step, Values, step_of, to_json


@dataclass(frozen=True, slots=True)
class Chain:
    """The steps that make one output of one feature.

    Attributes:
      feature: as the input calls it.
      steps: in their order; none where the feature stays as it is.
      output: what it is called in transformed examples; "" for what the feature is called in raw ones.
      where: what begins a sentence about it: file and line.
    """

    feature: str
    steps: tuple[Step, ...]
    output: str = ""
    where: str = ""

    @property
    def name(self) -> str:
        """Of the output, as the declaration calls it."""
        return self.output or self.feature

    def renamed(self, renames: Renames) -> str:
        """What the output is called in transformed examples."""
        return self.output or renames(self.feature)

    @property
    def taken(self) -> tuple[Step, ...]:
        """The steps as they are taken: without a logarithm before quantiles, which are those of what it is taken of."""
        return tuple(
            step
            for step, following in zip(self.steps, [*self.steps[1:], None])
            if not (isinstance(step, Log1p) and isinstance(following, Bucketize))
        )

    @property
    def before(self) -> tuple[Step, ...]:
        """The steps that are taken before the analyzer, all of them where there is none."""
        taken = self.taken
        return taken[: next((index for index, step in enumerate(taken) if step.needs), len(taken))]

    @property
    def analyzer(self) -> Step | None:
        """The one step whose constants come from the data."""
        return next((step for step in self.steps if step.needs), None)

    @property
    def needs(self) -> Needs:
        """What the analyzer needs, "" where there is none."""
        return self.analyzer.needs if self.analyzer is not None else ""

    def wrong(self, sentence: str) -> UserError:
        """The error that says `sentence` of its feature."""
        return UserError(f"{self.where}: feature {self.feature!r}: {sentence}")

    def values(self, feature: Feature) -> Values:
        """What its steps make of `feature`; raises a UserError where one takes none such."""
        values = values_of(feature)
        for step in self.steps:
            try:
                values = step.after(values)
            except ValueMistake as mistake:
                raise self.wrong(str(mistake)) from None
        return values

    def to_json(self) -> dict[str, Any]:
        """As it stands in manifest.json."""
        return {"feature": self.feature, "output": self.name, "steps": [to_json(step) for step in self.steps]}


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a transform.yaml says. Features that it does not name stay as they are.

    Attributes:
      chains: in the order of the file.
      dropped: features that transformed examples lack, each with where it says so.
    """

    chains: tuple[Chain, ...]
    dropped: tuple[tuple[str, str], ...] = ()

    @property
    def analyzed(self) -> tuple[Chain, ...]:
        """The chains that need constants of the data."""
        return tuple(chain for chain in self.chains if chain.needs)

    def to_json(self) -> dict[str, Any]:
        """As it stands in manifest.json, without the lines of the file."""
        return {
            "outputs": [chain.to_json() for chain in self.chains],
            "dropped": [feature for feature, _ in self.dropped],
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any], where: str = "") -> "Declaration":
        """The declaration that `to_json` wrote, in the file called `where`."""
        chains = (
            Chain(entry["feature"], tuple(map(step_of, entry["steps"])), entry["output"], where)
            for entry in content["outputs"]
        )
        return cls(tuple(chains), tuple((feature, where) for feature in content["dropped"]))

    def whole(self, features: Sequence[Feature]) -> "Declaration":
        """This one with a chain of no steps for each of `features` that it does not name; in the order of those."""
        named = {chain.feature for chain in self.chains} | {feature for feature, _ in self.dropped}
        chains: list[Chain] = []
        for feature in features:
            mine = [chain for chain in self.chains if chain.feature == feature.name]
            chains += mine if feature.name in named else [Chain(feature.name, ())]
        return Declaration(tuple(chains), self.dropped)

    def check(self, features: Sequence[Feature], renames: Renames = NO_RENAMES) -> None:
        """Check that it can be followed with these features; an output without a name has that of `renames`.

        Raises:
          UserError: one is missing, or of a type that a step does not take; two outputs have one name.
        """
        known = {feature.name: feature for feature in features}
        for name, where in [*((chain.feature, chain.where) for chain in self.chains), *self.dropped]:
            if name not in known:
                raise UserError(f"{where}: feature {name!r} is not there; {meant(name, known)}")
        for chain in self.chains:
            chain.values(known[chain.feature])
        whole = self.whole(features)
        if not whole.chains:
            raise UserError(f"{self.dropped[0][1]}: all features are dropped; expected one at least that stays")
        taken: dict[str, Chain] = {}
        for chain in sorted(
            whole.chains, key=lambda chain: bool(chain.where)
        ):  # those of the file last: they have lines
            other = taken.setdefault(chain.renamed(renames), chain)
            if other is not chain:
                of_other = f"feature {other.feature!r}" + (
                    f" ({other.where})" if other.where else ", which stays as it is,"
                )
                raise chain.wrong(f"output {chain.renamed(renames)!r} is that of {of_other} too; give another name")

    def sentences(self, features: Sequence[Feature]) -> list[str]:
        """What is understood, a line an output, of features that were checked."""
        known = {feature.name: feature for feature in features}
        lines = []
        for chain in self.whole(features).chains:
            if chain.steps:
                shown = " | ".join(map(_shown, chain.steps))
                values = chain.values(known[chain.feature])
                missing = ", may be missing" if values.missing and not values.many else ""
                lines.append(f"{chain.name}: {chain.feature} | {shown} -> {values.words}{missing}")
        kept = [chain.name for chain in self.whole(features).chains if not chain.steps]
        if kept:
            lines.append(f"as they are: {', '.join(kept)}")
        if self.dropped:
            lines.append(f"dropped: {', '.join(feature for feature, _ in self.dropped)}")
        return lines


def values_of(feature: Feature) -> Values:
    """The values of a raw feature."""
    return Values(feature.dtype, feature.shape != (), not feature.required, len(feature.class_names))


def _shown(step: Step) -> str:
    ((name, parameters),) = to_json(step).items()
    given = ", ".join(f"{key}={value}" for key, value in parameters.items() if value is not None)
    return f"{name}({given})" if given else name


def check_transform(
    declaration: Declaration,
    analyzed: Sequence[str],
    features: Sequence[Feature],
    splits: Sequence[str],
    renames: Renames = NO_RENAMES,
) -> None:
    """Check that a declaration can be followed, and that there are the splits that constants are to be taken of.

    Raises:
      UserError: it cannot, or one is not there.
    """
    if declaration.analyzed:
        check_analyzed("--transform", analyzed, splits)
    declaration.check(features, renames)


def check_analyzed(flag: str, analyzed: Sequence[str], splits: Sequence[str]) -> None:
    """Check that there are the splits that `flag` takes constants of; raises a UserError where one is not."""
    for split in analyzed:
        if split not in splits:
            raise UserError(
                f"{flag}: no split is called {split!r}, which constants are taken of; there are"
                f" {', '.join(splits)}; --analyze_splits names others"
            )
