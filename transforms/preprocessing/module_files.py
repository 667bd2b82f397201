"""What a module's analysis adds to a version: the folder that TensorFlow Transform wrote, and what can be said of it.
Pure."""

from collections.abc import Iterator, Mapping

from shardmill.metadata import naming
from shardmill.metadata.schema import from_pbtxt
from shardmill.metadata.transform_file import HEAD, Asset, ModuleSummary, TransformedOutput, TransformFile
from shardmill.transforms.preprocessing.module import PreprocessingModule

TRANSFORM_FN = f"{naming.TRANSFORM_GRAPH}/transform_fn"
_ASSETS = f"{TRANSFORM_FN}/assets/"
_RAW = f"{naming.TRANSFORM_GRAPH}/metadata/schema.pbtxt"
_TRANSFORMED = f"{naming.TRANSFORM_GRAPH}/transformed_metadata/schema.pbtxt"


def module_files(
    module: PreprocessingModule, graph: Mapping[str, bytes], schema: str, found: str, analyzed: Mapping[str, int]
) -> dict[str, bytes]:
    """The files, by their names in the version directory.

    Args:
      module: that was analyzed.
      graph: what TFT has written, `transform_fn/` and `transformed_metadata/`, by names in the folder.
      schema: of raw examples.
      found: the digest of what TFT found.
      analyzed: how many examples, by split.
    """
    files = {f"{naming.TRANSFORM_GRAPH}/{name}": data for name, data in graph.items()} | {_RAW: schema.encode()}
    outputs = tuple(TransformedOutput(feature.name, "") for feature in from_pbtxt(files[_TRANSFORMED].decode()))
    assets = tuple(_asset(name, files[name]) for name in sorted(files) if name.startswith(_ASSETS))
    told = TransformFile(analyzed, outputs, module=ModuleSummary(module.name, module.sha256, found, assets))
    return {**files, naming.TRANSFORM: told.to_json().encode()}


def _asset(name: str, data: bytes) -> Asset:
    lines = data.split(b"\n")[:HEAD]
    head = tuple(line.decode(errors="backslashreplace") for line in lines if line)
    return Asset(name, data.count(b"\n"), head)


def module_sentences(module: ModuleSummary) -> Iterator[str]:
    """What must be said of the graph of a module."""
    yield (
        f"the transform graph is that of {module.name}: TensorFlow Transform adds floats up in the order in which they"
        " come, so analyzing the same examples again may give other last digits; the SHA-256 of what it found is"
        f" {module.found}"
    )
