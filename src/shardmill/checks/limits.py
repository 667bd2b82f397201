"""From where on a value warns, and from where on it stops a version from being published."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from shardmill.checks.result import Severity

LOOKS_LIKE_LABEL = 0.95  # of the label that a feature tells, 0 to 1: beyond it, it is as good as the label


@dataclass(frozen=True, slots=True)
class Limits:
    """The thresholds of a check; None where there is none. A value on a threshold has not passed it."""

    warn: float | None = None
    error: float | None = None

    @property
    def is_off(self) -> bool:
        """Whether nothing is checked."""
        return self.warn is None and self.error is None

    def over(self, value: float, floor: float = 0.0) -> tuple[Severity, float | None]:
        """The severity of a value that should be small, and the threshold that decided it.

        Args:
          value: what was found.
          floor: what chance alone reaches; no threshold below it counts.
        """
        if self.error is not None and value > max(self.error, floor):
            return "error", self.error
        if self.warn is not None and value > max(self.warn, floor):
            return "warn", self.warn
        return "ok", self.error if self.warn is None else self.warn

    def under(self, value: float, floor: float | None = None) -> tuple[Severity, float | None]:
        """As `over`, of a value that should be large; chance alone takes it down to `floor`."""
        severity, threshold = Limits(_negative(self.warn), _negative(self.error)).over(
            -value, float("-inf") if floor is None else -floor
        )
        return severity, _negative(threshold)


LimitsByCheck = Mapping[str, Limits]
ByFeature = Mapping[str, LimitsByCheck]  # of single features, in place of those that hold for all
OFF = Limits()
ALIKE: ByFeature = MappingProxyType({})  # no feature has limits of its own


def limits_of(feature: str, limits: LimitsByCheck, own: ByFeature) -> LimitsByCheck:
    """The limits that hold for a feature: its own, and where it has none those of all."""
    return {**limits, **own.get(feature, {})}


def _negative(value: float | None) -> float | None:
    return None if value is None else -value
