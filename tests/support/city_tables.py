"""A table of cities as CSV, a missing value here and there: what the tests of tables share."""

HEADER = ("id", "age", "score", "city", "ok", "code")
CITIES = ("Bern", "Oslo", "Rome", "Lima")


def row(number: int) -> list[object]:
    """A row with a missing value here and there."""
    age = None if number % 7 == 0 else number % 90
    return [
        number,
        age,
        f"{number / 8 - 20:.3f}",
        CITIES[number % 4],
        "true" if number % 3 else "false",
        f"{number % 50:03d}",
    ]


ROWS = [row(number) for number in range(1000)]
SPLITS = ("--splits", "train=0.8,test=0.2")
