"""What a user says of preprocessing."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

from shardmill.errors import UserError
from shardmill.installation.extras import install_hint
from shardmill.transforms.options.columns import parse_names
from shardmill.transforms.options.declare import Options, flag
from shardmill.transforms.options.given_files import read_given
from shardmill.transforms.options.splits import TRAINING

if TYPE_CHECKING:
    from shardmill.transforms.preprocessing.gather import Analysis


def read_transform(value: Any) -> Any:  # a Declaration, which takes a while to import, and few need
    """The declaration of the transform.yaml at a path; of a mapping of features, as a recipe may have it, that of it.

    Raises:
      UserError: it cannot be read, or has a mistake; the sentence names feature, key and line.
    """
    from shardmill.transforms.preprocessing.declaration import Declaration
    from shardmill.transforms.preprocessing.parse import parse_transform

    if isinstance(value, Declaration):
        return value
    if isinstance(value, Mapping):
        import yaml

        return parse_transform(yaml.safe_dump(dict(value), sort_keys=False).encode(), "transform")
    return parse_transform(read_given("transform", str(value)), str(value))


def read_module(value: Any) -> Any:
    """The PreprocessingModule in the file at a path; raises a UserError where it cannot be read, or is no Python."""
    from shardmill.transforms.preprocessing.module import PreprocessingModule

    if isinstance(value, PreprocessingModule):
        return value
    return PreprocessingModule.of(str(value).rpartition("/")[2], read_given("module_file", str(value)))


def read_former(value: Any) -> Any:
    """The graph of the version at a path; raises a UserError where there is none."""
    from shardmill.transforms.preprocessing.former import FormerGraph

    return value if isinstance(value, FormerGraph) else FormerGraph.of(str(value))


def makes_graph(given: Mapping[str, Any]) -> bool:
    """Whether a job that is told these makes a transform graph; as far as can be said before they are parsed."""
    return any(given.get(name) is not None for name in ("transform", "transform_graph")) and _is_installed()


def _is_installed() -> bool:
    return find_spec("tensorflow_transform") is not None


@dataclass(frozen=True, kw_only=True)
class DeclaredOptions(Options):
    """Preprocessing that training and serving share, as it is declared."""

    title: ClassVar[str] = "features"
    analyzing: ClassVar[tuple[str, ...]] = ("transform",)  # the flags that take constants

    transform: Any = flag(
        None,
        "a transform.yaml: what becomes of features, saved as TensorFlow Transform's graph beside raw examples",
        parse=read_transform,
        told=False,
        to_json=lambda declaration: declaration.to_json(),
    )
    analyze_splits: tuple[str, ...] = flag(
        (),
        "split,… whose examples constants are taken of",
        parse=parse_names,
        told=False,
        to_json=list,
        default_words=TRAINING,
    )

    transform_graph: Any = flag(
        None,
        "a version, or the folder above: the constants and ids of its transform graph stay",
        parse=read_former,
        told=False,
        to_json=lambda former: former.name,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.analyze_splits and all(getattr(self, name) is None for name in self.analyzing):
            raise UserError(f"--analyze_splits needs {' or '.join(f'--{name}' for name in self.analyzing)}")
        former = self.transform_graph
        if former is not None and self.transform is None:
            object.__setattr__(self, "transform", former.declaration)
        if (
            former is not None
            and self.transform is not None
            and self.transform.to_json() != former.declaration.to_json()
        ):
            raise UserError(
                f"--transform_graph {former.directory}: its graph was made by another transform than --transform says;"
                " leave one of them out"
            )
        for given in self.analyzing:
            if getattr(self, given) is not None and not _is_installed():
                raise UserError(f"--{given} needs TensorFlow Transform; {install_hint('transform')}")

    @property
    def analyzed_splits(self) -> tuple[str, ...]:
        """The splits whose examples constants are taken of."""
        return self.analyze_splits or (TRAINING,)

    @property
    def analysis(self) -> "Analysis | None":
        """What --transform takes constants of."""
        if self.transform is None:
            return None
        from shardmill.transforms.preprocessing.gather import Analysis

        return Analysis(self.transform, self.analyzed_splits, self.transform_graph)


@dataclass(frozen=True, kw_only=True)
class TransformOptions(DeclaredOptions):
    """The same of records, as it is declared or programmed; it may be applied to them, too."""

    title: ClassVar[str] = "features"
    analyzing: ClassVar[tuple[str, ...]] = ("transform", "module_file")

    module_file: Any = flag(
        None,
        "a preprocessing.py: its preprocessing_fn(inputs) makes TensorFlow Transform's graph by any of its analyzers",
        parse=read_module,
        told=False,
        to_json=lambda module: module.to_json(),
    )

    materialize: bool = flag(
        False,
        "write the examples that --transform makes, instead of raw ones",
        told=False,
    )

    def __post_init__(self) -> None:
        for other in ("transform", "transform_graph"):
            if self.module_file is not None and getattr(self, other) is not None:
                raise UserError(f"--module_file and --{other}: each makes a transform graph; leave one of them out")
        if self.materialize and self.transform is None and self.transform_graph is None and self.module_file is None:
            raise UserError("--materialize needs --transform, --module_file, or --transform_graph")
        super().__post_init__()
