"""The suite's climate: runtime-checked shapes, no silent broadcasting, warnings are errors."""

import warnings

import jax
from jaxtyping import install_import_hook

# Checks every annotated function and module of the package, methods included
# (a decorator on a Module would not check its methods).
_hook = install_import_hook("temperflow", "beartype.beartype")
_hook.__enter__()

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")


def pytest_configure(config):
    config.addinivalue_line("filterwarnings", "error")
    # jaxtyping's shape strings look like forward references to beartype's own warnings.
    warnings.filterwarnings("ignore", module="beartype")
