"""The registry of add-ons: what each has, so that its modules are imported only when they are used."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AddOn:
    """A feature in a folder of its own in this package."""

    folder: str
    commands: tuple[str, ...] = ()  # its converting commands: KINDS of its module `commands`

    def module(self, name: str) -> str:
        """Return the dotted name of one of its modules."""
        return f"shardmill.addons.{self.folder}.{name}"


ADD_ONS = (AddOn("sql", commands=("sql", "bigquery")),)
