"""How often the verdict is right: random targets, good samplers and samplers made bad on purpose.

    python -m benchmarks.verdict_study --evidence runs/verdict.jsonl --out benchmarks/results/verdict.json

Each case is judged as a run would be; what was found goes to `--evidence`, a line a case, and a study that
is started again goes on where it stopped. The summary weighs the evidence by the thresholds of the day.

Every good sampler has targets, references and random numbers of its own. The bad samplers of one
target share the reference of its good one, which halves the cost; cases of one kind share nothing.
"""

import argparse
import dataclasses
import json
import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks.speed.machine import facts
from temperflow.app.verdict import LEVELS, Verdict, weigh
from temperflow.app.verdict_evidence import Evidence, gather
from temperflow.app.verdict_reference import LogZ, Reference, look_around

# The samplers are those of the tests, which judge a few of them at every change.
sys.path[:0] = [str(Path(__file__).parents[1] / "tests" / part) for part in ("app", ".")]
import verdict_cases  # noqa: E402
from exact_samplers import SOURCE  # noqa: E402

# Bad samplers of one target; the kinds take turns.
A_TARGET = 4
PAIRS = ("flow", "anneal", "temper", "reference", "swapped")


@dataclasses.dataclass(frozen=True)
class Case:
    """One sampler to judge: which target, what is right or wrong with it."""

    family: str
    index: int
    kind: str

    @property
    def name(self) -> str:
        return f"{self.family}, {self.index}, {self.kind}"


def cases(count: int) -> Iterator[list[Case]]:
    """Those of one target together: one good, and some of the bad kinds."""
    families, kinds = list(verdict_cases.FAMILIES), list(verdict_cases.BAD)
    for index in range(count):
        family = families[index % len(families)]
        turn = [kinds[(A_TARGET * index + place) % len(kinds)] for place in range(A_TARGET)]
        yield [Case(family, index, kind) for kind in ("good", *turn)]
        if index % 3 == index // 3 % 3:
            # A third of the targets, of every family as many, once more with a less perfect sampler.
            yield [Case(family, count + index, "fair")]
        if index % 3 == 0:
            yield [Case("far apart", index, "only the nearest mode")]


def judged(group: list[Case], seed: int) -> Iterator[tuple[Case, Evidence, float]]:
    """The evidence on each case, and the seconds it took; the first pays for the reference."""
    index = group[0].index
    makers = {**verdict_cases.FAMILIES, "far apart": verdict_cases.far}
    target = makers[group[0].family](np.random.default_rng([seed, index]))
    reference: Reference | None = None
    for place, case in enumerate(group):
        makers = {**verdict_cases.GOOD, **verdict_cases.BAD, "only the nearest mode": verdict_cases.nearest_only}
        sampler = makers[case.kind](target, np.random.default_rng([seed, index, place]))
        jax.block_until_ready(jax.tree.leaves(sampler.model))
        begin, own = time.perf_counter(), 1000 * seed + index
        if reference is None:
            reference = look_around(target.target, SOURCE, own)
        evidence = gather(sampler, reference, own)
        yield case, evidence, time.perf_counter() - begin


def wilson(hits: int, count: int, z: float = 1.96) -> tuple[float, float]:
    """The interval of 95 % for a share."""
    if count == 0:
        return 0.0, 1.0
    share, weight = hits / count, 1.0 + z**2 / count
    middle = share + z**2 / (2 * count)
    half = z * math.sqrt(share * (1.0 - share) / count + z**2 / (4 * count**2))
    return max(0.0, (middle - half) / weight), min(1.0, (middle + half) / weight)


def restored(values: dict[str, Any]) -> Evidence:
    """Evidence as it was before it became JSON."""
    pairs = {name: None if values[name] is None else LogZ(**values[name]) for name in PAIRS}
    return Evidence(**{**values, **pairs, "halves": tuple(LogZ(**half) for half in values["halves"])})


def summary(verdicts: list[tuple[dict[str, Any], Verdict]]) -> dict[str, Any]:
    """By kind: how many were flagged, how many of them condemned, and by what."""
    rows = {}
    for kind in dict.fromkeys(record["kind"] for record, _ in verdicts):
        mine = [verdict for record, verdict in verdicts if record["kind"] == kind]
        words = [verdict.word for verdict in mine]
        flagged = sum(word != LEVELS[0] for word in words)
        against = [finding.name for verdict in mine for finding in verdict.findings if finding.level != LEVELS[0]]
        rows[kind] = {
            "cases": len(mine),
            "flagged": flagged,
            "flagged_share": flagged / len(mine),
            "flagged_interval": wilson(flagged, len(mine)),
            "not_converged": words.count(LEVELS[2]),
            "findings": {name: against.count(name) for name in sorted(set(against), key=lambda n: -against.count(n))},
        }
    return rows


def together(rows: dict[str, Any], kinds: list[str]) -> dict[str, Any]:
    """Several kinds as one."""
    count, flagged = (sum(rows[kind][what] for kind in kinds) for what in ("cases", "flagged"))
    condemned = sum(rows[kind]["not_converged"] for kind in kinds)
    return {
        "cases": count,
        "flagged": flagged,
        "flagged_share": flagged / max(count, 1),
        "flagged_interval": wilson(flagged, count),
        "not_converged": condemned,
    }


def told(lines: list[dict[str, Any]], seed: int) -> dict[str, Any]:
    """The whole record."""
    verdicts = [(line, weigh(restored(line["evidence"]))) for line in lines]
    rows = summary(verdicts)
    good = [kind for kind in rows if kind in verdict_cases.GOOD]
    seconds = {
        what: float(np.median([line["seconds"] for line in lines if (line["kind"] in verdict_cases.GOOD) == whole]))
        for what, whole in (("with_reference", True), ("reference_given", False))
    }
    return {
        **facts(),
        "command": " ".join(["python -m benchmarks.verdict_study", *sys.argv[1:]]),
        "seed": seed,
        "targets": len({(line["family"], line["index"]) for line in lines}),
        "good": together(rows, good),
        "bad": together(rows, [kind for kind in rows if kind not in good]),
        "kinds": rows,
        "families": {
            family: {
                "good": together(mine, [kind for kind in mine if kind in good]),
                "bad": together(mine, [kind for kind in mine if kind not in good]),
            }
            for family in dict.fromkeys(line["family"] for line in lines)
            for mine in [summary([(line, verdict) for line, verdict in verdicts if line["family"] == family])]
        },
        "wrongly_judged": [
            {"case": line["name"], "word": verdict.word, "reasons": [f"{r.name}: {r.text}" for r in verdict.reasons]}
            for line, verdict in verdicts
            if (verdict.word == LEVELS[0]) != (line["kind"] in good)
        ],
        "median_seconds": seconds,
        "median_energy_calls": float(np.median([line["evidence"]["energy_calls"] for line in lines])),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evidence", type=Path, required=True, help="a line a case; appended to")
    parser.add_argument("--out", type=Path, required=True, help="the summary")
    parser.add_argument("--targets", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=math.inf, help="start no case after this long")
    arguments = parser.parse_args()
    begin = time.perf_counter()
    arguments.evidence.parent.mkdir(parents=True, exist_ok=True)
    lines = (
        [json.loads(line) for line in arguments.evidence.read_text().splitlines()]
        if arguments.evidence.exists()
        else []
    )
    done = {line["name"] for line in lines}
    # One family after another: each has a program of its own.
    groups = sorted(cases(arguments.targets), key=lambda group: group[0].family)
    for group in groups:
        if all(case.name in done for case in group) or time.perf_counter() - begin > arguments.seconds:
            continue
        for case, evidence, seconds in judged(group, arguments.seed):
            if case.name in done:
                continue
            line = {"name": case.name, **dataclasses.asdict(case), "seconds": seconds, "evidence": evidence.to_dict()}
            lines.append(line)
            with arguments.evidence.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(f"{case.name}: {weigh(evidence).word}, {seconds:.1f} s", flush=True)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    record = told(lines, arguments.seed)
    arguments.out.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n")
    print(json.dumps({part: record[part] for part in ("good", "bad", "wrongly_judged", "median_seconds")}, indent=2))


if __name__ == "__main__":
    main()
