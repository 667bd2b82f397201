"""The registry of input kinds by command; each kind is imported when it is looked up."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shardmill.pipelines.config.job import JobConfig
    from shardmill.pipelines.jobs.kind import Kind

_MODULES = {
    "file_kinds": ("IMAGE_KINDS", "ARRAY_KINDS", "AUDIO_KINDS"),
    "record_kinds": ("TABLE_KINDS", "TEXT_KINDS"),
}
_FILE_COMMANDS = ("images", "arrays", "audio")


class _Kinds(Mapping[str, "Kind"]):
    """All kinds by command. A module is imported when one of its kinds is looked up, for this takes milliseconds."""

    def __getitem__(self, command: str) -> "Kind":
        for kind in _kinds("file_kinds" if command in _FILE_COMMANDS else "record_kinds"):
            if kind.command == command:
                return kind
        raise KeyError(command)

    def __iter__(self) -> Iterator[str]:
        return (kind.command for module in _MODULES for kind in _kinds(module))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _kinds(module: str) -> "tuple[Kind, ...]":
    loaded = import_module(f"{__package__}.{module}")
    return tuple(kind for name in _MODULES[module] for kind in getattr(loaded, name))


KINDS = _Kinds()


def kind_of(config: "JobConfig") -> "Kind":
    """Return the kind of input that `config` belongs to."""
    return next(kind for kind in KINDS.values() if kind.owns(config))
