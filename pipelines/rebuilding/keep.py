"""What a build keeps of a version before: the ids of its classes, the types of its columns."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from google.protobuf import text_format

from shardmill.checks.asked import Constraints
from shardmill.errors import CorruptDataError, UserError
from shardmill.features.feature import Feature
from shardmill.metadata import naming
from shardmill.pipelines.config.given_schema import GivenSchema
from shardmill.pipelines.config.job import JobConfig
from shardmill.pipelines.recipes.recipe import Recipe
from shardmill.reading.dataset import Dataset, open_dataset
from shardmill.reading.selection import labels_of
from shardmill.transforms.options.checks import CheckOptions
from shardmill.transforms.options.labels import Labels
from shardmill.transforms.publishing.before import version_before
from shardmill.transforms.stores import storage
from shardmill.versions.tags import find_version

# Of a version's options those by which its schema is not that of its input
_MADE = {
    "materialize": "transformed examples (materialize)",
    "tokenizer": "tokens (tokenizer)",
    "sequence_by": "sequences (sequence_by)",
}


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept.

    Attributes:
      changes: of the job's configuration, by field.
      said: what must be said of that.
      labels_of: the version whose classes are kept; "" if none.
      constraints: what that version's schema asks for, which holds unless a recipe says otherwise; None if nothing.
    """

    changes: Mapping[str, Any] = field(default_factory=dict)
    said: tuple[str, ...] = ()
    labels_of: str = ""
    constraints: Constraints | None = None

    def checks(self, recipe: Recipe) -> CheckOptions:
        """What is checked of a build of `recipe` that keeps this."""
        checks = recipe.checks
        return checks if checks.schema is not None else replace(checks, schema=self.constraints)

    def config(self, recipe: Recipe, version: str, **changes: Any) -> JobConfig:
        """What the job of `recipe` is told that builds `version` and keeps this; raises as Recipe.config."""
        return replace(recipe.config(version, **changes, **self.changes), kept_of=self.labels_of)


def keep(recipe: Recipe, parent: str) -> Kept:
    """What a build of `recipe` keeps of a version in `parent`: the one that `like` or else LATEST names.

    Raises:
      UserError: `like` names no version, or the recipe says otherwise what is to be kept.
      CorruptDataError: the version cannot be read.
    """
    labels, types, like = recipe.keeps_labels, recipe.keeps_schema, recipe.build.like
    if not (labels or types):
        return Kept()
    _check(recipe, labels, types)
    said = []
    if like in (None, naming.LATEST):
        like, odd = version_before(parent)
        if not like:
            return Kept(
                said=("there is no version yet whose labels or schema could be kept: those of the input are taken",)
            )
        said += [odd] if odd else []
    dataset = open_dataset(parent, storage.StorageFiles(), like)
    changes: dict[str, Any] = {}
    flags = dataset.manifest.configuration
    made = next((what for flag, what in _MADE.items() if flags.get(flag) and not _undoes(recipe, flag)), "")
    if types and _has(recipe, "schema") and made:
        if recipe.build.schema == "keep":
            raise UserError(
                f"schema: keep: the schema of {dataset.manifest.version} is that of {made}, not of the input; name a"
                " schema.pbtxt"
            )
        said.append(
            f"the types of columns are those of the input: {dataset.manifest.version} has {made.partition(' (')[0]}"
        )
    elif types and _has(recipe, "schema"):
        given = _given(dataset, labels)
        changes["schema"] = given
        number = len(given.features)
        said.append(
            f"the types of {number:,} column{'' if number == 1 else 's'} are those of {dataset.manifest.version}"
        )
    if labels:
        names = _class_names(dataset)
        said.append(_labels_said(names, dataset.manifest.version, recipe.options.get("on_new_label", "fail")))
        if names:
            changes["labels"] = names
    has_own = any(recipe.options.get(name) is not None for name in ("transform_graph", "module_file"))
    keeps_graph = recipe.build.like is not None and not has_own
    if keeps_graph and "transform" in dataset.manifest.configuration and _has(recipe, "transform_graph"):
        changes["transform_graph"] = dataset.directory
        said.append(f"the constants of transformed features are those of {dataset.manifest.version}")
    asked = changes["schema"].asked if "schema" in changes else ""
    constraints = Constraints(asked) if asked else None
    return Kept(changes, tuple(said), dataset.manifest.version if "labels" in changes else "", constraints)


def kept_of(recipe: Recipe, parent: str) -> dict[str, str]:
    """What the recipe keeps, for the digest of what shapes the bytes: a tag by the version that it names, for it may be
    moved; LATEST by its name, for it moves with each build.

    Raises:
      UserError: `like` is no version and no tag.
      CorruptDataError: the file of the tag names no version.
    """
    kept = {name: "keep" for name in ("labels", "schema") if getattr(recipe, f"keeps_{name}")}
    like = recipe.build.like
    if like is not None:
        kept["like"] = like if like == naming.LATEST else find_version(storage.StorageFiles(), parent, like)[0]
    return kept


def _check(recipe: Recipe, labels: bool, types: bool) -> None:
    """Check that nothing is to be kept that a flag sets, and that there is such a thing; raises UserError."""
    command = recipe.kind.command
    for wanted, key, field_, flag in (
        (labels, "labels", "labels", "labels_file"),
        (types, "schema", "schema", "schema"),
    ):
        given = "like" if recipe.build.like is not None else key
        if wanted and recipe.options.get(field_) is not None:
            raise recipe.located(
                UserError(f"{given}: a version before says it, and so does --{flag}; leave one of them out")
            )
        if wanted and given == key and not _has(recipe, field_):
            raise recipe.located(UserError(f"{key}: keep has no meaning for {command}, which has no --{flag}"))


def _undoes(recipe: Recipe, flag: str) -> bool:
    """Whether what a version was made by is in the recipe, too, so that its schema says what the input has."""
    return flag != "materialize" and recipe.options.get(flag) is not None


def _has(recipe: Recipe, name: str) -> bool:
    return any(option.field == name for option in recipe.kind.options)


def _class_names(dataset: Dataset) -> Labels:
    """The classes of the label, by its name in the input where there are several; () where none has names."""
    labels = labels_of(dataset.manifest)
    if len(labels) == 1:
        return labels[0].class_names
    return {label.original or label.name: label.class_names for label in labels if label.class_names} or ()


def _labels_said(kept: Labels, version: str, on_new_label: str) -> str:
    if not kept:
        return f"{version} has no names of classes that could be kept"
    names = kept if isinstance(kept, tuple) else tuple(name for of_one in kept.values() for name in of_one)
    new = {"fail": "a new one fails", "append": "a new one gets the next id", "reject": "a new one is rejected"}
    return (
        f"the ids of {len(names):,} class{'' if len(names) == 1 else 'es'} are those of {version}; {new[on_new_label]}"
    )


def _given(dataset: Dataset, labels: bool) -> GivenSchema:
    """What the version's schema says, as --schema reads it; where labels are not kept, ids of classes are the
    strings again that the input has."""
    path = storage.join(dataset.directory, naming.SCHEMA)
    try:
        given = GivenSchema.from_pbtxt(dataset.metadata(naming.SCHEMA).decode())
    except (ValueError, text_format.ParseError, FileNotFoundError) as error:
        raise CorruptDataError(f"{path} cannot be kept: {error}") from None
    named = {feature.name for feature in dataset.manifest.features if feature.class_names}
    given = replace(given, kept_of=dataset.manifest.version)
    if labels:
        return given
    features = tuple(
        Feature(feature.name, "bytes", "tensor" if feature.shape else "text", feature.shape, feature.required)
        if feature.name in named
        else feature
        for feature in given.features
    )
    return replace(given, features=features)
