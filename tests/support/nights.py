"""A table of events and the recipe of it, in the folder where a test runs."""

from pathlib import Path

KINDS = ("buy", "click", "view")
Rows = list[list[str]]


def rows(number: int = 600, kinds: tuple[str, ...] = KINDS, first: int = 0) -> Rows:
    """As many events; an amount has nothing to do with its kind."""
    return [[str(first + n), kinds[n * 7 % len(kinds)], f"{n * 13 % 101 / 10}", f"city{n % 5}"] for n in range(number)]


def write(lines: Rows, header: str = "id,kind,amount,city", name: str = "a.csv") -> None:
    text = header + "\n" + "".join(",".join(line) + "\n" for line in lines)
    Path("in", name).write_text(text)


def recipe(more: str = "") -> None:
    Path("events.yaml").write_text(
        f"name: events\noutput: sets\ncsv:\n  input: in\n  label: kind\n  splits: train=0.8,test=0.2\n{more}"
    )
