"""A kind of input as the command line, recipes and Python see it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from shardmill.errors import UserError
from shardmill.installation.extras import install_hint
from shardmill.pipelines.config.format_spec import FormatSpec
from shardmill.pipelines.config.job import JobConfig
from shardmill.pipelines.config.records import RecordsConfig
from shardmill.pipelines.flags.parser import make_config
from shardmill.transforms.options.declare import Option, options_of

if TYPE_CHECKING:
    from shardmill.pipelines.graphs.jobs import Job


@dataclass(frozen=True)
class Kind:
    """A command that converts.

    Attributes:
      command: its name.
      summary: what it does, as `shardmill --help` says it.
      description: as its own --help says it.
      config: what it is told.
      make_job: the graph that a configuration describes; imports Beam.
    """

    command: str
    summary: str
    description: str
    config: type[JobConfig]
    make_job: "Callable[[Any], Job]"

    @property
    def options(self) -> tuple[Option, ...]:
        """The options that have a meaning for it."""
        return options_of(self.config)

    def make_config(self, values: Mapping[str, Any]) -> JobConfig:
        """The configuration that `values` describe, by flag or field, as texts or as they are used.

        Raises:
          UserError: a mistake, named.
        """
        return make_config(self.config, self.options, values)

    def owns(self, config: JobConfig) -> bool:
        """Whether `config` is one of its configurations."""
        return type(config) is self.config

    def check_installed(self) -> None:
        """Raise a UserError if something that the command needs is not installed."""

    def refuse(self, rest: Sequence[str]) -> None:
        """Raise a UserError if words that are no flags of the command, but may be Beam's, are a mistake here."""


@dataclass(frozen=True)
class RecordsKind(Kind):
    """A command that converts records inside files of one format."""

    spec: FormatSpec

    @property
    def options(self) -> tuple[Option, ...]:
        """Those of every job, and those of its format."""
        chosen = {*(option.field for option in options_of(JobConfig)), *self.spec.flags} - (
            {"folders"} - {*self.spec.flags}
        )
        return tuple(option for option in options_of(self.config) if option.field in chosen)

    def make_config(self, values: Mapping[str, Any]) -> JobConfig:
        """As the base says."""
        return make_config(RecordsConfig, self.options, values, spec=self.spec)

    def owns(self, config: JobConfig) -> bool:
        """As the base says."""
        return isinstance(config, RecordsConfig) and config.spec is self.spec

    def check_installed(self) -> None:
        """As the base says."""
        for module, sentence, extra in self.spec.needs:
            if find_spec(module) is None:
                raise UserError(f"{sentence}; {install_hint(extra)}")

    def refuse(self, rest: Sequence[str]) -> None:
        """As the base says."""
        # A flag of Beam's, too
        if "label" not in self.spec.flags and any(word.partition("=")[0] == "--label" for word in rest):
            raise UserError("--label: text has no columns; the label of a text is the folder of its file")
