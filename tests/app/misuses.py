"""What people get wrong at the command line, and what they should then read. Words are split as a shell would.

Every command runs in a folder that holds the files of `FILES`, a finished run `done` of `tiny_run`,
the same `half` way through, and an empty folder `empty`.
"""

FILES = {
    "model.py": """
import jax
import jax.numpy as jnp
import numpy as np

from temperflow import Target

number = 3.0

def good(x): return -0.5 * jnp.sum(x**2)
def vector(x): return -(x**2)
def pair(x): return -0.5 * jnp.sum(x**2), x
def nothing(x): jnp.sum(x**2)
def whole(x): return jnp.array(1)
def by_numpy(x): return -0.5 * np.sum(np.asarray(x) ** 2)
def branching(x): return -jnp.sum(x**2) if x[0] > 0 else -jnp.sum(x**4)
def raising(x): raise KeyError("data")
def of_three(x): return -jnp.sum((x - jnp.zeros(3)) ** 2)
def of_data(x, data): return -jnp.sum((x - data) ** 2)
def first_only(x): return -0.5 * x[0] ** 2
def nan(x): return jnp.sum(jnp.log(-1.0 - x**2))
def peaked(x): return jnp.where(x[0] > 0, jnp.inf, -jnp.sum(x**2))
def half(x): return jnp.where(x[0] > 0, -jnp.sum(x**2), -jnp.inf)
def rounded(x): return -jnp.sum(jnp.round(x**2))
def trapped(x): return -jnp.sum(jnp.where(x < 1e9, x**2, jnp.sqrt(-x * x - 1.0)))
def called_back(x):
    return jax.pure_callback(lambda v: np.float32(-np.sum(v**2)), jax.ShapeDtypeStruct((), jnp.float32), x)

target = Target(good, dim=2)
""",
    "syntax.py": "def log_density(x:\n",
    "raises.py": "import nowhere_to_be_found\n",
    "leaves.py": "import sys\nsys.exit(3)\n",
    "notes.txt": "",
}

# Name: the words, and pieces of what is said. The status is 2 throughout.
TABLE = {
    # words
    "no command": ("", ["no COMMAND"]),
    "unknown command": ("rnu gmm40", ["the command 'rnu'", "did you mean 'run'?"]),
    "no target": ("run", ["no TARGET", "temperflow run --help"]),
    "two targets": ("run gmm40 gmm9", ["'gmm9', which is one argument too many", "run TARGET"]),
    "unknown option": ("sample done -n 5 --output a.nc --out b.nc", ["'--output'", "did you mean '--out'?"]),
    "unknown field": ("run gmm40 --training.epoch 3", ["'--training.epoch'", "did you mean '--training.epochs'?"]),
    "unknown recipe": ("run gmm40 --recipe quik", ["no recipe 'quik'; did you mean 'quick'?"]),
    "unknown target": ("run gmm04", ["target 'gmm04'", "did you mean 'gmm40'?"]),
    "option without a value": ("run gmm40 --training.epochs", ["--training.epochs: expected one argument"]),
    # numbers
    "zero epochs": ("run gmm40 --training.epochs 0", ["training.epochs is 0", "at least 1"]),
    "no whole number": ("run gmm40 --training.epochs 1.5", ["--training.epochs 1.5", "a whole number"]),
    "no number": ("run gmm40 --training.learning_rate fast", ["--training.learning_rate fast", "a number"]),
    "no truth value": ("run gmm40 --path.widen maybe", ["--path.widen maybe", "true or false"]),
    "unknown choice": ("run gmm40 --path.schedule survy", ["one of identity,", "did you mean 'survey'?"]),
    "negative temperature": ("run gmm40 --temperature.hottest -0.5", ["temperature.hottest is -0.5", "in (0, 1]"]),
    "temperature of zero": ("run gmm40 --temperature.hottest 0", ["temperature.hottest is 0", "in (0, 1]"]),
    "edges out of order": ("run gmm40 --temperature.cold_edge 3", ["0 < cold_edge < hot_edge <= edge"]),
    "learning rate of nan": ("run gmm40 --training.learning_rate nan", ["training.learning_rate is nan", "a positive"]),
    "no walkers": ("run gmm40 --training.walkers 0", ["training.walkers is 0", "at least 1"]),
    "negative friction": ("run gmm40 --proposal.damping -1", ["proposal.damping is -1.0", "zero or a positive"]),
    "no source": ("run gmm40 --source_scale 0", ["source_scale is 0", "a positive number"]),
    "horizon beyond the end": (
        "run gmm40 --training.horizons 0.5,2 --training.horizon_iterations 3,3",
        ["training.horizons is (0.5, 2.0)", "increasing times in (0, 1]"],
    ),
    "horizon without duration": ("run gmm40 --training.horizons 0.5", ["one duration a horizon"]),
    "three probes": ("run gmm40 --training.probes 3", ["training.probes is 3", "1, 2 or nothing"]),
    "negative seed": ("run gmm40 --seed -1", ["--seed: -1", "at least 0"]),
    "seed too large": ("run gmm40 --seed 2147483648", ["--seed: 2147483648", "below 2147483648"]),
    "no trials": ("run gmm40 --trials 0", ["--trials: 0", "at least 1"]),
    # the user's file
    "no such file": ("run modle.py:good --dim 2", ["modle.py, which is not there", "did you mean 'model.py'?"]),
    "a folder for a file": ("run empty.py:good --dim 2", ["empty.py, which is a directory"]),
    "no such function": ("run model.py:god --dim 2", ["no 'god' in model.py", "did you mean 'good'?"]),
    "no function named": ("run model.py --dim 2", ["model.py without the name of a function", "good, vector"]),
    "not a function": ("run model.py:number --dim 2", ["'number' in model.py, a float"]),
    "syntax error": ("run syntax.py:log_density --dim 2", ["syntax.py, which raises SyntaxError", "line 1"]),
    "import error": ("run raises.py:log_density --dim 2", ["No module named 'nowhere_to_be_found' (line 1)"]),
    "a file that exits": ("run leaves.py:log_density --dim 2", ["raises SystemExit: 3 (line 2)"]),
    # its dimension
    "no dimension": ("run model.py:good", ["without a dimension", "--dim N"]),
    "dimension of zero": ("run model.py:good --dim 0", ["--dim: 0", "at least 1"]),
    "dimension of a Target": ("run model.py:target --dim 3", ["dim=3", "a Target of dimension 2"]),
    "dimension that is fixed": ("run gmm40 --dim 3", ["target 'gmm40' with dim=3", "its own dimension is 2"]),
    "dimension too small": ("run model.py:of_three --dim 2", ["incompatible shapes", "dim=2"]),
    "dimension too large": ("run model.py:first_only --dim 3", ["coordinates 1, 2", "--dim"]),
    # its density
    "a vector": ("run model.py:vector --dim 2", ["float32[2] at one point", "one real number"]),
    "a pair": ("run model.py:pair --dim 2", ["type tuple", "one real number"]),
    "nothing": ("run model.py:nothing --dim 2", ["type NoneType", "one real number"]),
    "a whole number": ("run model.py:whole --dim 2", ["int32[]", "float32[]"]),
    "numpy": ("run model.py:by_numpy --dim 2", ["cannot trace", "replace numpy by jax.numpy"]),
    "a branch": ("run model.py:branching --dim 2", ["cannot trace", "jnp.where"]),
    "raises": ("run model.py:raising --dim 2", ["raises KeyError: 'data'"]),
    "two arguments": ("run model.py:of_data --dim 2", ["missing 1 required positional argument: 'data'"]),
    "nan everywhere": ("run model.py:nan --dim 2", ["NaN at all of", "logarithms or roots"]),
    "infinite peak": ("run model.py:peaked --dim 2", ["+inf where the sampler starts"]),
    "half-space": ("run model.py:half --dim 2", ["-inf or NaN at 46%", "map bounded parameters"]),
    "no gradient": ("run model.py:rounded --dim 2", ["gradient of exactly zero", "stop_gradient"]),
    "trapped gradient": ("run model.py:trapped --dim 2", ["gradient that is not finite at 100%", "jnp.where"]),
    "black box": ("run model.py:called_back --dim 2", ["without a gradient", "jax.custom_jvp"]),
    # places
    "a file for a directory": ("run gmm9 --out notes.txt", ["notes.txt, a file", "choose another `out`"]),
    "a directory with other things": ("run gmm9 --out .", ["and no run", "choose another `out`"]),
    "the directory of another run": ("run gmm40 --out done", ["target.name: 'gmm9' there, 'gmm40' now", "resume"]),
    "resume nothing": ("resume empty", ["empty, which holds no run", "check the path"]),
    "resume nowhere": ("resume nowhere", ["nowhere, which holds no run"]),
    "report on nothing": ("report empty", ["empty, which holds no run"]),
    "evaluate nothing": ("evaluate empty", ["empty, which holds no run"]),
    # draws
    "draws of an unfinished run": ("sample half -n 5 --out a.nc", ["has not finished", "temperflow resume half"]),
    "evaluate an unfinished run": ("evaluate half", ["has not finished", "temperflow resume half"]),
    "no draws": ("sample done -n 0 --out a.nc", ["-n: 0", "at least 1"]),
    "draws in words": ("sample done -n many --out a.nc", ["-n: 'many'", "a whole number"]),
    "unknown ending": ("sample done -n 5 --out a.xlsx", ["a.xlsx", "ends in .nc, .npz, .csv, .parquet"]),
    "no ending": ("sample done -n 5 --out a", ["ends in .nc"]),
    "into nowhere": ("sample done -n 5 --out nowhere/a.nc", ["in a directory that is not there"]),
    "over a directory": ("sample done -n 5 --out folder.nc", ["folder.nc, a directory"]),
    "unknown method": (
        "sample done -n 5 --out a.nc --method aneal",
        ["--method: 'aneal'", "one of flow, anneal, temper"],
    ),
    "seed of draws": ("sample done -n 5 --out a.nc --seed -3", ["--seed: -3"]),
    "one draw to measure": ("evaluate done -n 1", ["-n: 1", "at least 2"]),
    "no trials to measure": ("evaluate done --trials 0", ["--trials: 0", "at least 1"]),
    "one draw to compare": ("compare done -n 1", ["-n: 1", "at least 2"]),
}
