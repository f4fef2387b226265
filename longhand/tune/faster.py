"""Whether a kernel is faster than another, from turns that both took side by side: by more than chance, and steadily.

Beside the two a second run of the old one is timed: how far the old one is from itself is noise that counts, too.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence

LEAST_GAIN = 0.02
_LEAST_WINS = 0.8
FINAL_TURNS = 21  # of a comparison that decides


@dataclasses.dataclass(frozen=True)
class SpeedComparison:
    """A kernel against an older one.

    Attributes:
        gain: The part of the old one's time that it saves, in the median of the turns; negative if it is slower.
        noise: The part that may be chance.
        is_steady: Whether it was faster in four of five turns.
    """

    gain: float
    noise: float
    is_steady: bool

    @staticmethod
    def of(new: Sequence[float], old: Sequence[float], again: Sequence[float]) -> SpeedComparison:
        """From the seconds of each turn; `again` are those of the old one beside itself."""
        noise = max(abs(_ratio(again, old)[0] - 1), _ratio(new, old)[1], _ratio(again, old)[1])
        wins = min(_share_of_wins(new, one) for one in (old, again))
        return SpeedComparison(1 - _ratio(new, old)[0], noise, wins >= _LEAST_WINS)

    @property
    def is_faster(self) -> bool:
        """Whether it is worth to be written."""
        return self.gain > max(LEAST_GAIN, self.noise) and self.is_steady

    def why_not(self) -> str:
        """Why it is not, in words."""
        if self.gain <= 0:
            return f"no faster: {-100 * self.gain:.1f}% slower, with a noise of {100 * self.noise:.1f}%"
        if self.gain <= self.noise:
            return f"{100 * self.gain:.1f}% faster, with a noise of {100 * self.noise:.1f}%: not to be told apart"
        if self.gain <= LEAST_GAIN:
            return f"{100 * self.gain:.1f}% faster, and less than {100 * LEAST_GAIN:.0f}% is not written"
        return f"{100 * self.gain:.1f}% faster in the median, but not in four of five turns"


def _ratio(one: Sequence[float], other: Sequence[float]) -> tuple[float, float]:
    """The median of the ratios turn by turn, and the half-width of its 95% interval."""
    ratios = [a / b for a, b in zip(one, other, strict=True)]
    middle = statistics.median(ratios)
    deviation = 1.4826 * statistics.median([abs(ratio - middle) for ratio in ratios])
    return middle, 1.96 * 1.2533 * deviation / math.sqrt(len(ratios))


def _share_of_wins(one: Sequence[float], other: Sequence[float]) -> float:
    """In what part of the turns the first was faster."""
    return sum(a < b for a, b in zip(one, other, strict=True)) / len(one)
