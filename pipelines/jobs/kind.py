"""The record of a converting command: its configuration and how it makes a job."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from shardmill.addons import registry
from shardmill.errors import UserError
from shardmill.installed import install_hint
from shardmill.pipelines.config.flags import make_config
from shardmill.pipelines.config.job import JobConfig
from shardmill.pipelines.config.records import FormatSpec, RecordsConfig
from shardmill.transforms.features.options import insert_options
from shardmill.transforms.options.declare import Option, options_of

if TYPE_CHECKING:
    from shardmill.pipelines.jobs.file_graphs import Files
    from shardmill.pipelines.jobs.job import Job


@dataclass(frozen=True)
class Kind:
    """A command that converts one kind of input, such as `shardmill csv`."""

    name: str
    description: str  # shown by the command's own --help
    config: type[JobConfig]  # the class of its configurations
    route: "Callable[[Any], Files] | None" = None  # finds and reads files that are an example each; imports Beam
    short_help: tuple[str, ...] = field(default=(), kw_only=True)  # flags of --help besides those of all commands
    examples: tuple[str, ...] = field(default=(), kw_only=True)  # arguments, shown at the end of --help

    @property
    def options(self) -> tuple[Option, ...]:
        """Return the options that the command uses."""
        return insert_options(options_of(self.config), registry.options_for(self.name))

    def make_config(self, values: Mapping[str, Any]) -> JobConfig:
        """Make a configuration from `values`, keyed by flag or field name, each a text or an already parsed value."""
        return make_config(self.config, self.options, values)

    def make_job(self, config: JobConfig) -> "Job":
        """Return the job of `config`."""
        from shardmill.pipelines.jobs.job import file_job, record_job

        if isinstance(config, RecordsConfig):
            return record_job(config)
        assert self.route is not None
        return file_job(self.route(config))

    def check_installed(self) -> None:
        """Check that everything the command needs is installed; raises UserError."""

    def refuse(self, rest: Sequence[str]) -> None:
        """Refuse words that Beam would accept but that are a mistake for this command; raises UserError."""


@dataclass(frozen=True)
class RecordsKind(Kind):
    """A command that converts records inside files of one format."""

    config: type[JobConfig] = RecordsConfig
    spec: FormatSpec = field(kw_only=True)

    @property
    def options(self) -> tuple[Option, ...]:
        """Return the options of every job, without --folders, and those of the format."""
        chosen = {option.field for option in options_of(JobConfig)} - {"folders"} | {*self.spec.flags}
        options = insert_options(options_of(self.config), registry.options_for(self.spec.unit))
        return tuple(option for option in options if option.field in chosen or option.owner is not self.config)

    def make_config(self, values: Mapping[str, Any]) -> JobConfig:
        return make_config(RecordsConfig, self.options, values, spec=self.spec)

    def check_installed(self) -> None:
        for module, sentence, extra in self.spec.required_modules:
            if find_spec(module) is None:
                raise UserError(f"{sentence}; {install_hint(extra)}")

    def refuse(self, rest: Sequence[str]) -> None:
        # A flag of Beam's, too
        if "label" not in self.spec.flags and any(word.partition("=")[0] == "--label" for word in rest):
            raise UserError("--label: text has no columns; the label of a text is the folder of its file")
