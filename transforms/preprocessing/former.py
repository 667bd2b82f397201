"""A transform graph made before, whose constants stay; and what the new examples would have changed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from shardmill.errors import UserError
from shardmill.metadata import naming
from shardmill.metadata.transform_file import TransformedOutput, TransformFile
from shardmill.reading.dataset import open_dataset
from shardmill.transforms.preprocessing.constants import Constants
from shardmill.transforms.preprocessing.counted import SCHEMA
from shardmill.transforms.preprocessing.declaration import Declaration
from shardmill.transforms.stores import storage


@dataclass(frozen=True, slots=True)
class FormerGraph:
    """The graph of a version.

    Attributes:
      name: of the data set and its version.
      directory: of the version.
      declaration: it was made by.
      found: what was found then.
    """

    name: str
    directory: str
    declaration: Declaration
    found: TransformFile

    @classmethod
    def of(cls, path: str) -> "FormerGraph":
        """That of the version in `path`, or of the one that its LATEST names.

        Raises:
          UserError: there is no data set, or none that was made with --transform.
          CorruptDataError: what says what was found is damaged.
        """
        dataset = open_dataset(path, storage.StorageFiles())
        manifest = dataset.manifest
        declared = manifest.configuration.get("transform")
        if manifest.configuration.get("module_file") is not None:
            raise UserError(
                f"--transform_graph {path}: the transform graph of {manifest.name} {manifest.version} is that of"
                " --module_file, whose analysis is not taken up again; give a version that was made with --transform"
            )
        if naming.TRANSFORM not in manifest.files or not isinstance(declared, Mapping):
            raise UserError(
                f"--transform_graph {path}: {manifest.name} {manifest.version} has no transform graph; it is made with"
                " --transform"
            )
        where = storage.join(dataset.directory, naming.MANIFEST)
        found = TransformFile.from_json(dataset.metadata(naming.TRANSFORM), naming.TRANSFORM)
        declaration = Declaration.from_json(declared, where)
        return cls(f"{manifest.name} {manifest.version}", dataset.directory, declaration, found)

    def constants(self, output: str, new: Constants | None) -> Constants:
        """Those of an output, by its name in transformed examples; what is unknown is counted in the `new` examples."""
        former = self._output(output)
        if former.vocabulary is None:
            return Constants(former.constants)
        lines = storage.read_bytes(storage.join(self.directory, former.vocabulary.file)).split(b"\n")[:-1]
        entries = pa.table([pa.array(lines, pa.large_binary()), pa.array([0] * len(lines), pa.int64())], schema=SCHEMA)
        counts = {"entries": former.vocabulary.entries, "distinct": former.vocabulary.distinct}
        return Constants(counts, entries, new.unknown if new is not None else {})

    def head(self, output: str) -> tuple[tuple[str, int], ...]:
        """The most frequent entries of a vocabulary, as they were counted then."""
        vocabulary = self._output(output).vocabulary
        return vocabulary.head if vocabulary is not None else ()

    def _output(self, name: str) -> TransformedOutput:
        return next(output for output in self.found.outputs if output.name == name)


def drift(former: Constants, new: Constants) -> dict[str, Any]:
    """What the new examples would have made of an output's constants, and how far that is from the former ones."""
    if former.entries is not None and new.entries is not None:
        kept = pc.sum(pc.is_in(new.entries["value"], value_set=former.entries["value"].combine_chunks())).as_py() or 0
        return {"entries": len(new.entries), "kept": kept}
    found = dict(new.numbers)
    if "mean" in found:
        found["shift"] = (found["mean"] - former.numbers["mean"]) / former.numbers["std_dev"]
    return found


def drift_sentences(file: TransformFile) -> Iterator[str]:
    """What must be said of outputs whose constants stayed as they were."""
    if not file.former:
        return
    yield f"the constants of transformed features are those of {file.former}"
    for output in file.outputs:
        yield from _sentences(output, output.drift or {}, file.former)


def _sentences(output: TransformedOutput, found: Mapping[str, Any], former: str) -> Iterator[str]:
    if "shift" in found:
        yield (
            f"{output.name}: the mean is {found['mean']:.6g}, {abs(found['shift']):.2g} standard deviations"
            f" {'above' if found['shift'] >= 0 else 'below'} that of {former}"
        )
    elif "kept" in found:
        yield f"{output.name}: {found['kept']:,} of {found['entries']:,} entries would be those of {former}"
    elif "minimum" in found:
        old = output.constants
        if found["minimum"] < old["minimum"] or found["maximum"] > old["maximum"]:
            yield (
                f"{output.name}: values are from {found['minimum']:.6g} to {found['maximum']:.6g}; in {former} they"
                f" were from {old['minimum']:.6g} to {old['maximum']:.6g}"
            )
    elif "boundaries" in found and list(found["boundaries"]) != list(output.constants["boundaries"]):
        shown = ", ".join(f"{boundary:.6g}" for boundary in found["boundaries"])
        yield f"{output.name}: the boundaries of buckets would be {shown}"
