"""Options of preprocessing."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

from shardmill.errors import UserError
from shardmill.installed import install_hint
from shardmill.transforms.features.options import AddOnOptions
from shardmill.transforms.options.declare import newer_flag, read_option_file
from shardmill.transforms.options.job_options import TRAINING, parse_names

if TYPE_CHECKING:
    from shardmill.pipelines.config.job import JobConfig


def read_transform(value: Any) -> Any:  # a Declaration, which takes a while to import, and few need
    """Return the Declaration in the transform.yaml at a path, or in a mapping of features as a recipe may hold it.

    Raises UserError if it cannot be read or has a mistake; the message names feature, key and line.
    """
    from shardmill.addons.transform.preprocessing_declaration import Declaration
    from shardmill.addons.transform.preprocessing_sources import parse_transform

    if isinstance(value, Declaration):
        return value
    if isinstance(value, Mapping):
        import yaml

        return parse_transform(yaml.safe_dump(dict(value), sort_keys=False).encode(), "transform")
    if str(value).endswith(".py"):
        raise UserError(f"--transform {value} is no transform.yaml; tables and lines take Python by --module_file")
    return parse_transform(read_option_file("transform", str(value)), str(value))


def read_module(value: Any) -> Any:
    """Return the PreprocessingModule in the file at a path, with the modules of its folder that it imports.

    Raises UserError if a file cannot be read or is not Python.
    """
    from shardmill.addons.transform.preprocessing_module import OPTION, PreprocessingModule

    if isinstance(value, PreprocessingModule):
        return value
    return PreprocessingModule.read(str(value), OPTION)


def read_previous_graph(value: Any) -> Any:
    """Return the PreviousGraph of the version at a path; raise UserError if it has none."""
    from shardmill.addons.transform.preprocessing_sources import PreviousGraph

    return value if isinstance(value, PreviousGraph) else PreviousGraph.read(str(value))


@dataclass(frozen=True, kw_only=True)
class DeclaredOptions(AddOnOptions):
    """Options of declared preprocessing, which training and serving share."""

    title: ClassVar[str] = "features"
    precedes: ClassVar[str] = "delimiter"
    analysis: ClassVar[str] = "transform.analyses.make_analysis"
    analyzing_flags: ClassVar[tuple[str, ...]] = ("transform",)  # the flags that take constants

    transform: Any = newer_flag(
        None,
        "File transform.yaml of feature transforms; saves a TensorFlow Transform graph with the raw examples",
        parse=read_transform,
        reads_file=True,
        metavar="FILE",
    )
    analyze_splits: tuple[str, ...] = newer_flag(
        (),
        "Comma-separated splits from which --transform computes its constants",
        parse=parse_names,
        default_words=TRAINING,
        metavar="SPLIT,…",
    )

    transform_graph: Any = newer_flag(
        None,
        "Folder of a version, or of its data set, whose transform graph is used again",
        parse=read_previous_graph,
        reads_file=True,
        to_json=lambda former: former.name,
        metavar="DIR",
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
            if getattr(self, given) is not None and find_spec("tensorflow_transform") is None:
                raise UserError(f"--{given} needs TensorFlow Transform; {install_hint('transform')}")

    def check(self, config: "JobConfig") -> None:
        if not getattr(config, "manifest", True):
            raise UserError("--transform is about the columns of a --manifest; leave it out with --input")


@dataclass(frozen=True, kw_only=True)
class TransformOptions(DeclaredOptions):
    """Options of preprocessing for records: declared or programmed, and optionally applied to the written examples."""

    analyzing_flags: ClassVar[tuple[str, ...]] = ("transform", "module_file")

    module_file: Any = newer_flag(
        None,
        "Python file with preprocessing_fn(inputs), which makes a TensorFlow Transform graph with any of its analyzers",
        parse=read_module,
        reads_file=True,
        metavar="FILE",
    )

    materialize: bool = newer_flag(False, "Write the examples that --transform makes instead of the raw ones")

    def __post_init__(self) -> None:
        for other in ("transform", "transform_graph"):
            if self.module_file is not None and getattr(self, other) is not None:
                raise UserError(f"--module_file and --{other}: each makes a transform graph; leave one of them out")
        if self.materialize and self.transform is None and self.transform_graph is None and self.module_file is None:
            raise UserError("--materialize needs --transform, --module_file, or --transform_graph")
        super().__post_init__()

    def check(self, config: "JobConfig") -> None:
        schema = getattr(config, "schema", None)
        if self.materialize and schema is not None and schema.constraints:
            raise UserError(
                f"--materialize: {schema.origin} has constraints on raw values, which transformed examples do not hold;"
                " leave the constraints out of the schema, or leave --materialize out"
            )


_OF_FILES = dict.fromkeys(("images", "arrays", "audio"), DeclaredOptions)
OPTIONS = {"row": TransformOptions, "line": TransformOptions, **_OF_FILES}
