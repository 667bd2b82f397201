"""What is in the features of a split, a row each, for a terminal."""

from rich.table import Table

from shardmill.pipelines.reports.figures import QUANTILES, distinct_words, figure, measured
from shardmill.pipelines.reports.text_table import text_of
from shardmill.printable import printable
from shardmill.statistics.feature_summary import FeatureSummary
from shardmill.statistics.stats_file import SplitSummary

_COLUMNS = 120  # characters of a line: there are twelve cells in it
_TITLES = ("missing", "distinct", "min", *(f"{100 * float(name):.0f} %" for name in QUANTILES), "max", "of")


def statistics_table(split: SplitSummary) -> str:
    """A table with a row for each feature of which more is known than its classes; "" where there is none."""
    rows = [(name, *cells) for name, summary in split.features.items() if any(cells := _cells(summary))]
    if not rows:
        return ""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("feature", overflow="fold")
    for title in _TITLES:
        table.add_column(title, justify="left" if title == "of" else "right")
    for row in rows:
        table.add_row(*map(printable, row))
    return text_of(table, _COLUMNS)


def _cells(summary: FeatureSummary) -> tuple[str, ...]:
    word, numbers = measured(summary)
    between = [figure((numbers.quantiles or {}).get(name)) for name in QUANTILES] if numbers is not None else []
    return (
        figure(summary.missing),
        distinct_words(summary.distinct),
        figure(numbers.minimum) if numbers is not None else "",
        *(between or [""] * len(QUANTILES)),
        figure(numbers.maximum) if numbers is not None else "",
        word,
    )
