"""Would it have been seen? How likely a random look at some docs finds answers that were changed, and whether answers that differ
were changed or merely given by a server that differs from itself."""

from __future__ import annotations

import math


def chance_to_see(total: int, drawn: int, changed: int) -> float:
    """The probability that at least one of `changed` among `total` docs is among `drawn` that are drawn at random.

    Without replacement, so it is at least 1 - (1 - p)^k.

    >>> chance_to_see(1000, 50, 100) > 1 - 0.9**50
    True
    >>> chance_to_see(10, 10, 1), chance_to_see(10, 3, 0)
    (1.0, 0.0)
    """
    if not 0 <= drawn <= total or not 0 <= changed <= total:
        raise ValueError(f"{drawn} drawn and {changed} changed of {total}")
    unseen = 1.0
    for place in range(drawn):
        unseen *= max(0, total - changed - place) / (total - place)
    return 1.0 - unseen


def smallest_seen(total: int, drawn: int, level: float = 0.95) -> int | None:
    """The fewest changed docs that would have been seen with at least this probability; None where none would.

    >>> smallest_seen(1000, 50)
    57
    """
    if drawn == 0:
        return None
    low, high = 1, total
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if chance_to_see(total, drawn, middle) >= level else (middle + 1, high)
    return low


def odd_one_out(kept_odd: int, odd: int, replays: int) -> float:
    """How often noise alone would give so many docs whose stored answer is the odd one out.

    A stored answer and `replays` new ones of a server that was left alone are exchangeable: where exactly one of them differs
    from all others, it is the stored one in 1 of `replays + 1` cases, however noisy the server is. The value is the upper tail of
    that binomial distribution.

    >>> odd_one_out(1, 1, 2), round(odd_one_out(3, 3, 2), 4), odd_one_out(0, 5, 2)
    (0.3333333333333333, 0.037, 1.0)
    """
    share = 1 / (replays + 1)
    tail = range(kept_odd, odd + 1)
    return min(1.0, math.fsum(math.comb(odd, j) * share**j * (1 - share) ** (odd - j) for j in tail))
