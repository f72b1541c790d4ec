"""Any number of draws into a file, a chunk at a time."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from temperflow.app.errors import NumericalError, UsageError
from temperflow.app.export_formats import FORMATS, Columns
from temperflow.app.files import explained
from temperflow.proposals.weights import log_mean_exp, log_mean_exp_error
from temperflow.sampling import METHODS, MOST_DRAWS, Draws, Method, Sampler
from temperflow.sampling.pareto import pareto_khat

# Draws held at once. A rollout keeps every time slice, so annealing holds fewer.
CHUNK = 65_536
ANNEALED_CHUNK = 8_192


@dataclass
class Summary:
    r"""What all chunks together say.

    $\hat Z = \sum_k n_k \hat Z_k / n$ over chunks of independent draws, its error from theirs;
    the effective share from running sums of $w$ and $w^2$, kept relative to the largest weight.

    Args:
        n: draws written.
        energy_calls: what they cost.
        khat: Pareto shape of the first chunk's weights.
    """

    n: int = 0
    energy_calls: int = 0
    khat: float = math.inf
    _evidence: list[tuple[int, float, float]] = field(default_factory=list)
    _largest: float = -math.inf
    _sum: float = 0.0
    _squares: float = 0.0

    def add(self, draws: Draws) -> None:
        """Take in a chunk."""
        log_weight = np.asarray(draws.log_weight, np.float64)
        if not self._evidence:
            self.khat = pareto_khat(log_weight)
        self.n += log_weight.size
        self.energy_calls += draws.energy_calls
        self._evidence.append((log_weight.size, float(draws.log_evidence), float(draws.log_evidence_error)))
        largest = max(self._largest, float(np.max(log_weight, initial=-math.inf)))
        if largest > -math.inf:
            fade = math.exp(self._largest - largest)
            weight = np.exp(log_weight - largest)
            self._sum = fade * self._sum + float(weight.sum())
            self._squares = fade**2 * self._squares + float(np.sum(weight**2))
            self._largest = largest

    @property
    def log_weight_sum(self) -> float:
        """$\\log\\sum w$."""
        return self._largest + math.log(self._sum) if self._sum > 0 else -math.inf

    def to_dict(self) -> dict[str, float | int]:
        """The attributes of a file, named as those of `Draws`."""
        sizes, values, errors = (np.array(column, np.float64) for column in zip(*self._evidence, strict=True))
        largest = values.max()
        shares = sizes * np.exp(values - largest) if largest > -math.inf else sizes
        return {
            "n": self.n,
            "log_evidence": float(largest + np.log(shares.sum() / sizes.sum())),
            "log_evidence_error": float(np.sqrt(np.sum((shares * errors) ** 2)) / shares.sum()),
            "ess": self._sum**2 / (self.n * self._squares) if self._squares > 0 else 0.0,
            "khat": self.khat,
            "energy_calls": self.energy_calls,
        }


def export(
    sampler: Sampler,
    n: int,
    out: Path,
    *,
    seed: int = 0,
    method: Method = "flow",
    chunk: int | None = None,
    each: Callable[[int], None] = lambda written: None,
) -> dict[str, float | int]:
    """Write `n` weighted draws and return their summary. Needs the memory of one chunk.

    The file appears under its name when it is whole. Its draws are those of
    `sampler.sample(n, seed, method)`, those of the flow for any n. Annealed ones are populations,
    so that only the first chunk is; the others come from seeds derived from `seed`.

    Args:
        sampler: whose draws.
        n: how many; `temper` gives only about as many.
        out: the file; its ending decides the format.
        seed: of all randomness.
        method: as in `Sampler.sample`.
        chunk: most draws at once.
        each: told how many have been written.
    """
    if n < 1:
        raise UsageError(got=f"n={n}", expected="a positive number of draws", todo="pass -n 10000, say")
    if method == "flow" and n > MOST_DRAWS - CHUNK:
        raise UsageError(
            got=f"n={n:,}",
            expected=f"at most {MOST_DRAWS - CHUNK:,} draws of one seed",
            todo="write several files with different seeds",
        )
    if method not in METHODS:
        raise UsageError(got=f"method {method!r}", expected=f"one of {', '.join(METHODS)}", todo="choose one of them")
    if method == "temper" and sampler.proposal.joint.tempering is None:
        raise UsageError(
            got="method 'temper' for a sampler trained without tempering",
            expected="a recipe whose proposal.kind is 'tempered'",
            todo="use --method anneal",
        )
    begin = FORMATS.get(out.suffix)
    if begin is None:
        raise UsageError(got=f"{out}", expected=f"a name that ends in {', '.join(FORMATS)}", todo="rename it")
    if not out.parent.is_dir() or out.is_dir():
        wrong = "a directory" if out.is_dir() else "in a directory that is not there"
        raise UsageError(got=f"{out}, {wrong}", expected="a file in an existing directory", todo="check the path")
    size = chunk or (CHUNK if method == "flow" else ANNEALED_CHUNK)
    if method == "flow":
        size = -(-n // -(-n // size))  # equal chunks, for the last one is drawn whole
    temporary = out.with_name(f".{out.stem}.tmp{out.suffix}")
    summary = Summary()
    with explained(out):
        try:
            writer = begin(temporary, sampler.dim, method == "flow")
            try:
                for draws in _chunks(sampler, n, size, seed, method):
                    summary.add(draws)
                    writer.write(_columns(draws))
                    each(summary.n)
                writer.finish(summary.to_dict(), summary.log_weight_sum, seed)
            finally:
                writer.close()
            temporary.replace(out)
        finally:
            temporary.unlink(missing_ok=True)
    return summary.to_dict()


def _chunks(sampler: Sampler, n: int, size: int, seed: int, method: Method) -> Iterator[Draws]:
    count = -(-n // size)
    for index, chunk_seed in enumerate([seed] * count if method == "flow" else _seeds(seed, count)):
        first = index * size
        wanted = min(size, n - first)
        if method == "flow":
            # A last chunk of another size would be another program to compile: it is drawn whole and cut.
            draws = _first(sampler.sample(size if index else wanted, seed=seed, first=first), wanted)
        else:
            draws = sampler.sample(wanted, seed=chunk_seed, method=method)
        yield draws
        if not np.any(np.isfinite(np.asarray(draws.log_weight))):
            raise NumericalError(
                got="draws without a single finite weight",
                expected="a density that is finite where the sampler goes",
                todo="run `temperflow evaluate` on the directory, and train longer or with a lower learning rate",
            )


def _seeds(seed: int, count: int) -> list[int]:
    """`seed` itself, then seeds of other chunks, all different."""
    found = [seed]
    spawned = iter(np.random.SeedSequence([seed, 1]).generate_state(2 * count + 8, np.uint32))
    while len(found) < count:
        candidate = int(next(spawned) >> 1)
        if candidate not in found:
            found.append(candidate)
    return found


def _first(draws: Draws, k: int) -> Draws:
    """The first k of flow draws, with the evidence of those alone."""
    if draws.x.shape[0] == k:
        return draws
    log_weight = draws.log_weight[:k]
    return Draws(
        draws.x[:k],
        log_weight,
        log_mean_exp(log_weight),
        log_mean_exp_error(log_weight) if k > 1 else draws.log_evidence_error,
        draws.log_density[:k],
        None if draws.log_proposal is None else draws.log_proposal[:k],
        draws.energy_calls,
    )


def _columns(draws: Draws) -> Columns:
    columns = {"x": draws.x, "log_weight": draws.log_weight, "lp": draws.log_density}
    if draws.log_proposal is not None:
        columns["log_q"] = draws.log_proposal
    return {name: np.asarray(values) for name, values in columns.items()}
