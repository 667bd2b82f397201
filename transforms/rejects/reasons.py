"""How often each reason was given, in bounded memory: of very many different ones, the most frequent."""

from dataclasses import dataclass

MOST_REASONS = 10_000  # that are remembered; twice as many for a moment


@dataclass(slots=True)
class Reason:
    """One reason.

    Attributes:
      times: how many lines give it.
      records: that these stand for.
      first: the source of the first of them.
    """

    times: int
    records: int
    first: str


class ReasonCounter:
    """Counts reasons as they come. Where there are too many different ones, those given least often until then are
    forgotten, the later ones of equals; what is counted depends on the order alone, in which rejects are published."""

    def __init__(self, most: int = MOST_REASONS) -> None:
        """Args:

        most: different reasons that are remembered.
        """
        self._most, self._found = most, dict[str, Reason]()
        self.forgot = False

    def add(self, reason: str, records: int, source: str) -> None:
        """Count a reject."""
        found = self._found.get(reason)
        if found is None:
            self._found[reason] = Reason(1, records, source)
            if len(self._found) > 2 * self._most:
                self._forget()
            return
        found.times += 1
        found.records += records

    def knows(self, reason: str) -> bool:
        """Whether a reason is remembered."""
        return reason in self._found

    def _forget(self) -> None:
        kept = sorted(self._found.items(), key=lambda item: -item[1].times)[: self._most]
        self._found, self.forgot = dict(kept), True

    def most_frequent(self) -> tuple[str, Reason] | None:
        """The reason that most lines give, the first of equals; None if there is none."""
        return max(self._found.items(), key=lambda item: item[1].times, default=None)

    def by_records(self, most: int) -> dict[str, int]:
        """The records of the `most` reasons with most of them, by reason, sorted; of equals the first by name."""
        ordered = sorted(self._found.items(), key=lambda item: (-item[1].records, item[0]))[:most]
        return {reason: found.records for reason, found in sorted(ordered)}
