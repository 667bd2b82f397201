"""What a transform graph was made with, in words: constants, vocabularies, and what is out of them."""

from collections.abc import Iterator, Mapping
from typing import Any

from shardmill.errors import CorruptDataError
from shardmill.metadata import naming
from shardmill.metadata.transform_file import ModuleSummary, TransformedOutput, TransformFile, VocabularySummary
from shardmill.reading.dataset import Dataset

_HEAD = 5  # entries of a vocabulary
_CLIPPED = 24  # letters of an entry
_DIGITS = 12  # of a digest
_LISTED = 8  # numbers of a constant that is a list


def read_transform_file(dataset: Dataset) -> tuple[TransformFile | None, str]:
    """What transform.json says, None where there is no such file, and what is wrong with it."""
    if naming.TRANSFORM not in dataset.manifest.files:
        return None, ""
    try:
        return TransformFile.from_json(dataset.metadata(naming.TRANSFORM), naming.TRANSFORM), ""
    except FileNotFoundError:
        return None, "missing"
    except CorruptDataError:
        return None, "damaged"


def transform_lines(found: TransformFile) -> Iterator[str]:
    """An output a line, or two where it has a vocabulary."""
    if found.module is not None:
        yield from _module_lines(found, found.module)
        return
    yield f"Transformed features, constants of examples: {_analyzed(found)}"
    width = max(len(output.name) for output in found.outputs)
    for output in found.outputs:
        yield f"  {output.name:{width}}  {steps_words(output)}{_constants(output.constants)}"
        if output.vocabulary is not None:
            yield from (f"  {'':{width}}    {line}" for line in _vocabulary(output.vocabulary))


def _analyzed(found: TransformFile) -> str:
    return ", ".join(f"{examples:,} of {split}" for split, examples in found.analyzed.items())


def _module_lines(found: TransformFile, module: ModuleSummary) -> Iterator[str]:
    yield f"Transformed features, by {module.name} (SHA-256 {module.sha256[:_DIGITS]}…), examples: {_analyzed(found)}"
    yield f"  {', '.join(output.name for output in found.outputs)}"
    for asset in module.assets:
        head = ", ".join(map(_clip, asset.head[:_HEAD]))
        more = ", …" if asset.entries > _HEAD else ""
        yield f"  {asset.file}: {asset.entries:,} lines: {head}{more}"


def steps_words(output: TransformedOutput) -> str:
    """The steps of an output, as they are written."""
    words = [_step(name, parameters) for step in output.steps for name, parameters in step.items()]
    return " | ".join([output.feature, *words]) if words else f"{output.feature}, as it is"


def _step(name: str, parameters: Mapping[str, Any]) -> str:
    given = [f"{key}={value}" for key, value in parameters.items() if value not in (None, "")]
    return f"{name}({', '.join(given)})" if given else name


def _constants(constants: Mapping[str, Any]) -> str:
    return "".join(f"; {name} {_number(value)}" for name, value in constants.items())


def _number(value: Any) -> str:
    if isinstance(value, list | tuple):
        more = f", … ({len(value):,})" if len(value) > _LISTED else ""
        return f"[{', '.join(map(_number, value[:_LISTED]))}{more}]"
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def _vocabulary(vocabulary: VocabularySummary) -> Iterator[str]:
    head = ", ".join(f"{_clip(entry)} {count:,}" for entry, count in vocabulary.head[:_HEAD])
    more = ", …" if vocabulary.entries > _HEAD else ""
    yield f"{vocabulary.entries:,} entries of {vocabulary.distinct:,} values: {head}{more}"
    shares = ", ".join(f"{split} {_share(*counted)}" for split, counted in vocabulary.unknown.items())
    yield f"out of it: {shares}"


def _share(values: int, unknown: int) -> str:
    return f"{unknown / values:.2%} of {values:,}" if values else "no values"


def _clip(entry: str) -> str:
    return entry if len(entry) <= _CLIPPED else f"{entry[: _CLIPPED - 1]}…"
