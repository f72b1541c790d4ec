"""File formats that take draws a chunk at a time."""

import contextlib
import io
import json
import shutil
import tempfile
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from temperflow.app.errors import UsageError

# `x` of shape (n, dim), and `log_weight`, `lp` and, for flow draws, `log_q` of shape (n,).
Columns = dict[str, np.ndarray]
Figures = Mapping[str, float | int]
# Rows read back at once when draws are resampled on disk.
ROWS = 65_536


class Writer(ABC):
    """An open file.

    Args:
        path: the file.
        dim: columns of `x`.
        with_proposal: whether `log_q` comes along.
    """

    def __init__(self, path: Path, dim: int, with_proposal: bool):
        self.path, self.dim = path, dim
        self.scalars = ["log_weight", "lp", *(["log_q"] if with_proposal else [])]

    @abstractmethod
    def write(self, columns: Columns) -> None:
        """Append a chunk."""

    def finish(self, figures: Figures, log_weight_sum: float, seed: int) -> None:  # noqa: B027
        """Add what is only known at the end: the summary, and equally weighted draws where the format has a place."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the file, whether it is whole or not."""

    def flat(self, columns: Columns) -> dict[str, np.ndarray]:
        """One named column for each coordinate, then the scalars."""
        coordinates = {f"x{index}": columns["x"][:, index] for index in range(self.dim)}
        return {**coordinates, **{name: columns[name] for name in self.scalars}}


class Csv(Writer):
    """A header, then a line a draw, digits enough to get the same float32 back."""

    def __init__(self, path: Path, dim: int, with_proposal: bool):
        super().__init__(path, dim, with_proposal)
        self._file = path.open("w", encoding="ascii", newline="")
        names = [*(f"x{index}" for index in range(dim)), *self.scalars]
        self._file.write(",".join(names) + "\n")

    def write(self, columns: Columns) -> None:
        np.savetxt(self._file, np.column_stack(list(self.flat(columns).values())), fmt="%.9g", delimiter=",")

    def close(self) -> None:
        self._file.close()


class Npz(Writer):
    """Arrays `x`, `log_weight`, `lp`, `log_q`, and the summary as scalars: `numpy.load` reads it."""

    def __init__(self, path: Path, dim: int, with_proposal: bool):
        super().__init__(path, dim, with_proposal)
        # A zip archive takes one member after the other: each grows in a file of its own first.
        self._folder = Path(tempfile.mkdtemp(prefix=f".{path.stem}.", dir=path.parent))
        self._parts = {name: (self._folder / name).open("wb") for name in ["x", *self.scalars]}
        self._rows, self._dtype = 0, np.dtype(np.float32)

    def write(self, columns: Columns) -> None:
        self._rows += columns["x"].shape[0]
        self._dtype = columns["x"].dtype
        for name, part in self._parts.items():
            part.write(np.ascontiguousarray(columns[name], self._dtype).tobytes())

    def finish(self, figures: Figures, log_weight_sum: float, seed: int) -> None:
        with zipfile.ZipFile(self.path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            for name, part in self._parts.items():
                part.close()
                shape = (self._rows, self.dim) if name == "x" else (self._rows,)
                header = {"descr": self._dtype.str, "fortran_order": False, "shape": shape}
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array_header_2_0(member, header)
                    with (self._folder / name).open("rb") as content:
                        shutil.copyfileobj(content, member, 1 << 16)
            for name, value in figures.items():
                with archive.open(f"{name}.npy", "w") as member:
                    np.lib.format.write_array(member, np.asarray(value), allow_pickle=False)

    def close(self) -> None:
        for part in self._parts.values():
            part.close()
        shutil.rmtree(self._folder, ignore_errors=True)


class Parquet(Writer):
    """A row group a chunk; the summary is JSON under `temperflow` in the file's metadata."""

    def __init__(self, path: Path, dim: int, with_proposal: bool):
        super().__init__(path, dim, with_proposal)
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError as error:
            raise UsageError(
                got="a .parquet file without the package pyarrow",
                expected="the extra to be installed",
                todo="pip install 'temperflow[parquet]', or choose .nc, .npz or .csv",
            ) from error
        self._arrow, self._parquet = pyarrow, pyarrow.parquet
        self._open: Any = None

    def write(self, columns: Columns) -> None:
        table = self._arrow.table(self.flat(columns))
        if self._open is None:
            self._open = self._parquet.ParquetWriter(self.path, table.schema)
        self._open.write_table(table)

    def finish(self, figures: Figures, log_weight_sum: float, seed: int) -> None:
        self._open.add_key_value_metadata({"temperflow": json.dumps(dict(figures))})

    def close(self) -> None:
        if self._open is not None:
            self._open.close()


class _Forbearing(io.RawIOBase):
    """A file under HDF5 that keeps its first failure to write for whoever asks, and feigns success.

    On a full disk HDF5 itself would try again and again, on closing and at exit, and die of it.
    """

    def __init__(self, path: Path):
        self._file = path.open("w+b", buffering=0)
        self._failure: OSError | None = None

    def write(self, content: Any) -> int:
        rest = memoryview(content)
        try:
            while self._failure is None and rest:
                rest = rest[self._file.write(rest) :]
        except OSError as failure:
            self._failure = failure
        return len(content)

    def readinto(self, buffer: Any) -> int:
        return self._file.readinto(buffer)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def truncate(self, size: int | None = None) -> int:
        return self._file.truncate(size) if self._failure is None else size or 0

    def close(self) -> None:
        self._file.close()
        super().close()

    def raise_failure(self) -> None:
        """To be asked after every piece."""
        if self._failure is not None:
            raise self._failure


class NetCdf(Writer):
    """The tree of `Draws.to_datatree`, which ArviZ opens, written and resampled in pieces.

    `weighted_posterior` grows chunk by chunk. At the end it is read back twice over in pieces to
    lay the comb of systematic resampling over it, which makes `posterior` and `sample_stats`.
    """

    def __init__(self, path: Path, dim: int, with_proposal: bool):
        super().__init__(path, dim, with_proposal)
        import h5netcdf

        self._below = _Forbearing(path)
        self._file = h5netcdf.File(self._below, "w")
        self._rows = 0
        self._weighted = self._group("weighted_posterior", ["x", *self.scalars])

    def write(self, columns: Columns) -> None:
        self._append(self._weighted, self._rows, {name: columns[name] for name in ["x", *self.scalars]})
        self._rows += columns["x"].shape[0]

    def finish(self, figures: Figures, log_weight_sum: float, seed: int) -> None:
        posterior, stats = self._group("posterior", ["x"]), self._group("sample_stats", self.scalars)
        written = 0
        for columns in self._resampled(log_weight_sum, seed):
            self._append(posterior, written, {"x": columns["x"]})
            self._append(stats, written, {name: columns[name] for name in self.scalars})
            written += columns["x"].shape[0]
        stats.variables["log_weight"].attrs["note"] = "weight before resampling; spent"
        for name, value in figures.items():
            self._file.attrs[name] = value
        # Closed here, because what HDF5 writes last can fail as well.
        self.close()
        self._below.raise_failure()

    def close(self) -> None:
        with contextlib.suppress(ValueError):
            self._file.close()
        self._below.close()

    def _group(self, name: str, variables: list[str]) -> Any:
        group = self._file.create_group(name)
        group.dimensions = {"chain": 1, "draw": None, **({"x_dim": self.dim} if "x" in variables else {})}
        group.create_variable("chain", ("chain",), np.int64, data=np.zeros(1, np.int64))
        group.create_variable("draw", ("draw",), np.int64, chunks=(ROWS,))
        for variable in variables:
            last, width = (("x_dim",), (self.dim,)) if variable == "x" else ((), ())
            group.create_variable(
                variable, ("chain", "draw", *last), np.float32, chunks=(1, min(ROWS, 4096), *width), fillvalue=np.nan
            )
        if "x" in variables:
            group.create_variable("x_dim", ("x_dim",), np.int64, data=np.arange(self.dim))
        return group

    def _append(self, group: Any, start: int, columns: Columns) -> None:
        stop = start + next(iter(columns.values())).shape[0]
        group.resize_dimension("draw", stop)
        group.variables["draw"][start:stop] = np.arange(start, stop)
        for name, values in columns.items():
            group.variables[name][0, start:stop] = values
        self._below.raise_failure()

    def _resampled(self, log_weight_sum: float, seed: int) -> Any:
        """Rows chosen by systematic resampling, in order, a piece at a time."""
        n = self._rows
        shift = np.random.default_rng(seed).uniform()
        passed, taken = 0.0, 0
        for start in range(0, n, ROWS):
            stop = min(start + ROWS, n)
            log_weight = np.asarray(self._weighted.variables["log_weight"][0, start:stop], np.float64)
            cumulative = passed + np.cumsum(np.exp(log_weight - log_weight_sum))
            passed = cumulative[-1]
            # Teeth stand at (j + shift)/n; rounding may leave the last one beyond the last weight.
            due = n if stop == n else int(np.clip(np.ceil(passed * n - shift), taken, n))
            teeth = (np.arange(taken, due) + shift) / n
            taken = due
            chosen = np.searchsorted(cumulative, np.minimum(teeth, cumulative[-1]), side="left").clip(
                0, stop - start - 1
            )
            piece = {name: np.asarray(self._weighted.variables[name][0, start:stop]) for name in ["x", *self.scalars]}
            # A heavy weight may stand for more rows than a piece has.
            for first in range(0, chosen.size, ROWS):
                yield {name: values[chosen[first : first + ROWS]] for name, values in piece.items()}


FORMATS: dict[str, Callable[[Path, int, bool], Writer]] = {
    ".nc": NetCdf,
    ".npz": Npz,
    ".csv": Csv,
    ".parquet": Parquet,
}
