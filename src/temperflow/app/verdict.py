"""May these draws be trusted? A word, and the reasons for it."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from temperflow.app.verdict_evidence import Evidence, gather
from temperflow.app.verdict_reference import REPLICAS, LogZ, Reference, look_around
from temperflow.sampling import Sampler

Level = Literal["trusted", "check", "not converged"]
LEVELS: tuple[Level, ...] = ("trusted", "check", "not converged")

# Below half, the chi-squared distance 1/ESS - 1 exceeds one: the weights' noise outweighs the
# target's own. At a twentieth, nineteen draws of twenty are for nothing.
ESS_CHECK, ESS_BAD = 0.5, 0.05
# Above 0.7 the error of a weighted average shrinks too slowly to be estimated (Vehtari et al.
# 2024); from 1 on the weights have no mean at all.
KHAT_CHECK, KHAT_BAD = 0.7, 1.0
# KL in nats. By Pinsker 0.25 leaves at most 0.35 of total variation; from 1 on it may be 0.8.
GAP_CHECK, GAP_BAD = 0.25, 1.0
# log Z: a tenth of the mass is the least that matters, half of it cannot be overlooked. Beyond
# that, three errors of the difference: under one false alarm in 300 for each pair.
EVIDENCE_CHECK, EVIDENCE_BAD, ERRORS = 0.1, 0.5, 3.0
# Three errors may excuse a nat, two thirds of the mass; beyond that two estimates cannot agree.
UNSURE = 1 / 3
# The same for -F(1, 1), which is learned and not corrected by weights.
BELIEF_CHECK, BELIEF_BAD = 0.25, 1.0
# Draws of the reference that the flow can hardly make. Three at least, for one may be a stray.
MISSED_CHECK, MISSED_BAD, MISSED_LEAST = 0.003, 0.01, 3
# Shares of draws and walkers without finite numbers.
BROKEN_CHECK, BROKEN_BAD = 0.001, 0.05
# Cold walkers against those due. F wrong by one nat over β makes a factor e.
COLD_CHECK, COLD_BAD = 0.5, 0.1
# Nats by which the log weight of a path drifts where residuals do not cancel.
DRIFT_CHECK, DRIFT_BAD = 1.0, 10.0


@dataclass(frozen=True)
class Finding:
    """One reason.

    Args:
        name: what was looked at.
        level: what it alone would amount to.
        text: the number and what it means.
    """

    name: str
    level: Level
    text: str


@dataclass(frozen=True)
class Verdict:
    """`trusted`, `check` or `not converged`: the worst of its findings.

    Args:
        findings: all that was looked at.
        evidence: the numbers.
    """

    findings: tuple[Finding, ...]
    evidence: Evidence

    @property
    def word(self) -> Level:
        """The worst level among the findings."""
        return LEVELS[max(LEVELS.index(finding.level) for finding in self.findings)]

    @property
    def reasons(self) -> tuple[Finding, ...]:
        """Those findings that keep it from being trusted, the worst first; all of them if none does."""
        against = [finding for finding in self.findings if finding.level != "trusted"]
        return tuple(sorted(against, key=lambda f: -LEVELS.index(f.level))) or self.findings

    def to_dict(self) -> dict[str, Any]:
        """As in `verdict.json`."""
        return {
            "verdict": self.word,
            "reasons": [_plain(finding) for finding in self.reasons],
            "findings": [_plain(finding) for finding in self.findings],
            "evidence": self.evidence.to_dict(),
        }


def judge(sampler: Sampler, seed: int = 0, reference: Reference | None = None) -> Verdict:
    """Look at a sampler from all sides that need no truth, and say what it amounts to.

    Blind to what neither the sampler nor tempered SMC nor parallel tempering can find, both run
    from a start wider than the domain that the sampler knows of.

    Args:
        sampler: the trained sampler.
        seed: of all randomness.
        reference: what `look_around` found for the same target; made anew if left out.
    """
    if reference is None:
        continuum = sampler.proposal.joint.continuum
        widest = continuum.source_scale if continuum.widening is None else continuum.widening.scale
        reference = look_around(sampler.proposal.target, max(float(continuum.source_scale), float(widest)), seed)
    return weigh(gather(sampler, reference, seed))


def weigh(evidence: Evidence) -> Verdict:
    """What the evidence amounts to; nothing is drawn or computed anew."""
    return Verdict(tuple(_findings(evidence)), evidence)


def _findings(e: Evidence) -> Iterator[Finding]:
    yield _above("flow ESS", e.ess, ESS_CHECK, ESS_BAD, f"{e.ess:.3f} of the flow's draws are effective")
    yield _below(
        "flow k-hat", _khat(e.khat, e.ess), KHAT_CHECK, KHAT_BAD, f"{e.khat:.2f} is the shape of the weights' tail"
    )
    yield _below(
        "flow against its own weights", e.gap, GAP_CHECK, GAP_BAD,
        f"KL(q‖π) of {e.gap:.3g} nats: what the weights have to put right",
    )  # fmt: skip
    yield from _coverage(e)
    yield from _agreement(e)
    yield from _annealing(e)
    yield _below(
        "residual", e.drift, DRIFT_CHECK, DRIFT_BAD,
        f"median |r| of {e.drift:.3g} over t at temperature one: nats a log weight may drift by",
    )  # fmt: skip
    if e.drift_hot is not None:
        yield _below(
            "residual, hot", e.drift_hot, DRIFT_CHECK, DRIFT_BAD,
            f"median |r| of {e.drift_hot:.3g} over t above temperature one: what tempered draws drift by",
        )  # fmt: skip
    if e.cold_share is not None and e.cold_share_due is not None:
        ratio = e.cold_share / e.cold_share_due
        yield _above(
            "cold particles", ratio, COLD_CHECK, COLD_BAD,
            f"{e.cold_share:.1%} of the walkers end at temperature one where {e.cold_share_due:.1%} are due",
        )  # fmt: skip
    yield _below(
        "finite draws", e.non_finite, BROKEN_CHECK, BROKEN_BAD,
        f"{e.non_finite:.2%} of the flow's draws met numbers that are not finite",
    )  # fmt: skip
    yield _below(
        "finite walks", e.dead, BROKEN_CHECK, BROKEN_BAD,
        f"{e.dead:.2%} of the walkers met numbers that are not finite",
    )  # fmt: skip


def _coverage(e: Evidence) -> Iterator[Finding]:
    """What wide tempered runs find and the flow does not."""
    yield _missed("coverage", e.missed, e.missed_count, "a wide tempered run's")
    yield _below(
        "flow against the reference", e.reference_gap, GAP_CHECK, GAP_BAD,
        f"KL(π‖q) of {e.reference_gap:.3g} nats at a wide tempered run's draws",
    )  # fmt: skip
    if not e.reference_settled:
        yield Finding(
            "reference", "check", "ever wider starts of the tempered run went on finding more: the domain may be larger"
        )
    if _heard(e):
        yield _missed("coverage, parallel tempering", e.swapped_missed, e.swapped_missed_count, "parallel tempering's")


def _missed(name: str, share: float, count: int, whose: str) -> Finding:
    level: Level = "trusted"
    stray = share >= 0.0 and count < MISSED_LEAST
    if not (share <= MISSED_CHECK or stray):
        level = "check" if share <= MISSED_BAD else "not converged"
    return Finding(name, level, f"{share:.1%} of {whose} draws lie where the flow hardly goes")


def _heard(e: Evidence) -> bool:
    """Whether parallel tempering has forgotten its start: a journey for each replica."""
    return e.round_trips >= REPLICAS


def _agreement(e: Evidence) -> Iterator[Finding]:
    """Estimates of one number that share neither draws nor assumptions."""
    yield _unless_more(_same("log Z, flow and wide tempered run", e.flow, e.reference), e.flow, e.reference)
    if _heard(e):
        yield _unless_more(_same("log Z, flow and parallel tempering", e.flow, e.swapped), e.flow, e.swapped)
    else:
        yield Finding(
            "parallel tempering", "trusted",
            f"{e.round_trips} round trips of {REPLICAS} replicas: too few for this target to be heard",
        )  # fmt: skip
    yield _same("log Z, flow and annealing", e.flow, e.anneal)
    if e.temper is not None:
        yield _same("log Z, flow and tempered annealing", e.flow, e.temper)
    yield _same("log Z, two halves", *e.halves)
    yield _same("log Z, flow and -F(1, 1)", e.flow, LogZ(e.believed, 0.0), BELIEF_CHECK, BELIEF_BAD)


def _annealing(e: Evidence) -> Iterator[Finding]:
    """At most a reason to look: the flow may be right where its annealed draws are not."""
    sound = e.anneal_ess >= ESS_BAD and _khat(e.anneal_khat, e.anneal_ess) <= KHAT_CHECK
    yield Finding(
        "annealing",
        "trusted" if sound else "check",
        f"{e.anneal_ess:.3f} of the annealed draws are effective, their weights' tail has shape {e.anneal_khat:.2f}",
    )


def _same(name: str, one: LogZ, other: LogZ, check: float = EVIDENCE_CHECK, bad: float = EVIDENCE_BAD) -> Finding:
    error = math.hypot(one.error, other.error)
    found = _below(
        name, abs(one.value - other.value) - ERRORS * error, check, bad, f"{_shown(one)} and {_shown(other)}"
    )
    if found.level == "trusted" and not error <= UNSURE:
        return replace(found, level="check", text=f"{found.text}: too uncertain to agree")
    return found


def _unless_more(found: Finding, flow: LogZ, reference: LogZ) -> Finding:
    """Where the flow finds more mass than a reference, it is the reference that has missed some.

    Weights overstate Z by a factor a in one run of a at most, for E w = Z (Markov). Short of a
    proof of that, which one of the two is right is left to the reader.
    """
    if flow.value > reference.value and found.level != "trusted":
        return replace(found, level="check", text=f"{found.text}: the reference finds less")
    return found


def _khat(khat: float, ess: float) -> float:
    """Weights that are equal to rounding have no tail worth a shape."""
    return -math.inf if ess > 0.999 else khat


def _below(name: str, value: float, check: float, bad: float, text: str) -> Finding:
    # Written so that NaN is never good.
    return Finding(name, "trusted" if value <= check else "check" if value <= bad else "not converged", text)


def _above(name: str, value: float, check: float, bad: float, text: str) -> Finding:
    return Finding(name, "trusted" if value >= check else "check" if value >= bad else "not converged", text)


def _shown(z: LogZ) -> str:
    return f"{z.value:.3f} ± {z.error:.3f}"


def _plain(finding: Finding) -> dict[str, str]:
    return {"name": finding.name, "level": finding.level, "text": finding.text}
