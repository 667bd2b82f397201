"""Tables as plain text."""

import io

from rich.console import Console
from rich.table import Table

_COLUMNS = 100  # characters of a line, where nothing else is asked for


def text_of(table: Table, columns: int = _COLUMNS) -> str:
    """A table as text, its lines without white space at their ends.

    A cell is what it is, though it may be called `[b]` or `:cat:`; and there are no colours, though FORCE_COLOR asks
    for them.

    Args:
      table: to lay out.
      columns: characters of the longest line.
    """
    text = io.StringIO()
    console = Console(file=text, width=columns, markup=False, emoji=False, force_terminal=False, color_system=None)
    console.print(table)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())
