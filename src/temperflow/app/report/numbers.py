"""The report's numbers: each with its error and with what perfection would score."""

import math
from dataclasses import dataclass
from typing import Any

from temperflow.app.report.measure import Measurements


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Args:
        name: what it is.
        value: with its error.
        perfect: what the best there is would score: a floor, a truth, or a bound.
        meaning: in a few words.
    """

    name: str
    value: str
    perfect: str
    meaning: str


def rows(metrics: dict[str, Any] | None, seen: Measurements | None) -> list[Row]:
    """From the last evaluation where there was one; else from the report's own draws."""
    if metrics is not None:
        return _evaluated(metrics)
    return [] if seen is None else _looked_at(seen)


def number(value: float | int | None, error: float | None = None, digits: int = 3) -> str:
    """A number and its error, the number to the digits that its error leaves.

    >>> number(3.14159, 0.02), number(-0.0412, 0.0031), number(1234567), number(None), number(0.999)
    ('3.142 ± 0.020', '-0.0412 ± 0.0031', '1,234,567', '–', '0.999')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞"
    if error is None or not math.isfinite(error) or error <= 0:
        return f"{value:.{digits}g}" if abs(value) < 1000 else f"{value:,.0f}"
    places = max(0, 1 - math.floor(math.log10(error)))
    return f"{value:,.{places}f} ± {error:,.{places}f}"


def _evaluated(m: dict[str, Any]) -> list[Row]:
    known = number(m.get("log_evidence_known"), digits=5)
    bound = "log Z" if known == "–" else known
    # With exact draws at hand there is an upper bound; JSON has no word for one that is infinite.
    endless = m.get("w2") is not None and m.get("eubo") is None
    found = [
        Row(
            "W2",
            _pair(m, "w2", "_spread"),
            _pair(m, "w2_floor", "_spread"),
            "distance to exact draws, with spread",
        ),
        Row("ELBO", _pair(m, "elbo"), f"≤ {bound}", "lower bound on log Z by the flow's own density"),
        Row(
            "EUBO", "∞" if endless else _pair(m, "eubo"), f"≥ {bound}", "upper bound; a missed mode cannot hide from it"
        ),
        Row("log Z", _pair(m, "log_evidence"), known, "by the flow's weights"),
        Row("−F(1, 1)", number(_minus(m.get("free_energy")), digits=4), known, "what the network believes of log Z"),
        Row("ESS", _pair(m, "ess"), "1", "effective share of the flow's draws; blind to missed modes"),
        Row("ESS, forward", _pair(m, "ess_forward"), "1", "the same seen from exact draws; not blind"),
        Row("k-hat", number(m.get("khat"), digits=2), "< 0.7", "tail of the weights; above, averages are unreliable"),
        Row("modes", _modes(m), "all", "modes that hold a draw, mean and worst trial"),
        Row("mode TV", _pair(m, "mode_tv", "_spread"), number(m.get("mode_tv_floor")), "error of the modes' shares"),
    ]
    return [row for row in found if not row.value.startswith("–")]


def _looked_at(seen: Measurements) -> list[Row]:
    draws = seen.draws
    value, error = float(draws.log_evidence), float(draws.log_evidence_error)
    return [
        Row("log Z", number(value, error), "–", "by the flow's weights"),
        Row("ESS", number(draws.ess), "1", "effective share of the flow's draws; blind to missed modes"),
        Row("k-hat", number(draws.khat, digits=2), "< 0.7", "tail of the weights; above, averages are unreliable"),
    ]


def _pair(m: dict[str, Any], name: str, suffix: str = "_error") -> str:
    return number(m.get(name), m.get(name + suffix))


def _modes(m: dict[str, Any]) -> str:
    if m.get("modes") is None:
        return "–"
    return f"{number(float(m['modes']), digits=4)}, worst {m.get('modes_worst')}"


def _minus(value: float | None) -> float | None:
    return None if value is None else -value
