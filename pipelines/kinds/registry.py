"""All kinds of input, by their command, in the order of --help; each is imported when it is asked for."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shardmill.pipelines.config.job import JobConfig
    from shardmill.pipelines.kinds.kind import Kind

_MODULES = ("images", "arrays", "audio", "tables", "text")  # named by their command; the tables have several


class _Kinds(Mapping[str, "Kind"]):
    """The `KINDS` of the modules here. To declare what a command is told takes milliseconds, so --help of one does
    without the others."""

    def __getitem__(self, command: str) -> "Kind":
        for kind in _kinds(command if command in _MODULES else "tables"):
            if kind.command == command:
                return kind
        raise KeyError(command)

    def __iter__(self) -> Iterator[str]:
        return (kind.command for module in _MODULES for kind in _kinds(module))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _kinds(module: str) -> "tuple[Kind, ...]":
    kinds: tuple[Kind, ...] = import_module(f"{__package__}.{module}").KINDS
    return kinds


KINDS = _Kinds()


def kind_of(config: "JobConfig") -> "Kind":
    """The kind of input that `config` is the configuration of."""
    return next(kind for kind in KINDS.values() if kind.owns(config))
