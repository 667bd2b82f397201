"""Hooks of an add-on that analyzes all examples, to make further files of a version, or other examples."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from shardmill.data.features import Features, Renames
from shardmill.transforms.stores import storage


@dataclass(frozen=True, slots=True)
class StagedFiles:
    """Further files of a version in the job's temporary directory, before they are published."""

    folder: str = ""  # holds the files; "" if there are no examples
    names: tuple[str, ...] = ()  # the files' names in the version directory
    features: Features = ()  # features of the examples that the add-on makes

    def read(self) -> dict[str, bytes]:
        """Read the files by name; raise FileNotFoundError if another attempt has published and deleted them."""
        return {name: storage.read_bytes(storage.join(self.folder, name)) for name in self.names}


@dataclass(frozen=True, kw_only=True)
class Analysis(ABC):
    """Hooks of an add-on that analyzes all examples. They travel to workers, so they pickle."""

    flag: str  # the option that asks for it
    plans_first: str = ""  # why the types of columns must be known before the job is built; "" if they need not
    reads_records: bool = False  # True if it reads staged records, and makes its files of them
    replaces_examples: bool = False  # True if the examples that it makes are written, in place of the others
    lock_share: float = 0.0  # part of the core time of making these examples under Python's lock
    libraries: tuple[str, ...] = ()  # libraries whose release can change the output's bytes

    def ahead(self) -> AbstractContextManager[None]:
        """Return the context in which a local job runs, which starts what takes long to start."""
        return nullcontext()

    @abstractmethod
    def check(self, features: Features, splits: Collection[str], columns: Collection[str] | None = None) -> None:
        """Check that the analysis fits features, none if no record can be read, splits, and a manifest's `columns`.

        Raises UserError.
        """

    def describe(self, features: Features, source: str) -> list[str]:
        """Return the lines of a dry run; raise UserError if the examples of `source` cannot be analyzed."""
        return []

    def gatherer(self, temporary: str) -> Any:
        """Return a collector of one task's examples, such as `Gatherer` of the add-on transform; None for none.

        It writes files to the job's `temporary` directory.
        """
        return None

    @abstractmethod
    def stage_files(self, layout: Any, staged: Any, config: Any, options: Any, plan: Any, temporary: str) -> Any:
        """Return the PCollections of one StagedFiles, and of one ShardSource if the analysis `replaces_examples`.

        It is called if the analysis `reads_records`. `layout` is a PCollection of one TableLayout, `staged` the
        StagedRuns of a job with a RecordsConfig, PublishOptions, and a DryRun if the analysis `plans_first`.
        """

    def make_files(self, gathered: Any, features: Features, renames: Renames) -> dict[str, bytes]:
        """Return the further files by their names in the version directory, unless the analysis `reads_records`.

        `gathered` is of all examples, or None; `features` are those of examples, by input name. Raises JobError.
        """
        return {}

    def notices(self, files: Mapping[str, bytes]) -> list[str]:
        """Return the notices about the further files."""
        return []
