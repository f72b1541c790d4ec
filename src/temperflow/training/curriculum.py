"""How far in time training looks: the horizon grows from a fraction of the path to all of it."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int


class Curriculum(eqx.Module):
    """Horizons and the iterations each is held; afterwards the whole path.

    Args:
        horizons: increasing, in (0, 1).
        iterations: how long each lasts.

    >>> import jax.numpy as jnp
    >>> stages = Curriculum(horizons=(0.25, 0.5), iterations=(100, 200))
    >>> [float(stages(jnp.array(i))) for i in (0, 99, 100, 300)]
    [0.25, 0.25, 0.5, 1.0]
    """

    horizons: tuple[float, ...] = ()
    iterations: tuple[int, ...] = ()

    def __check_init__(self):
        if len(self.horizons) != len(self.iterations):
            raise ValueError(
                f"one duration a horizon; got {len(self.horizons)} horizons and {len(self.iterations)} durations"
            )
        if any(not 0.0 < horizon <= 1.0 for horizon in self.horizons):
            raise ValueError(f"horizons lie in (0, 1]; got {self.horizons}")

    def __call__(self, iteration: Int[Array, ""]) -> Float[Array, ""]:
        ends = jnp.asarray(np.cumsum(np.asarray(self.iterations, np.int32)), jnp.int32)
        values = jnp.asarray([*self.horizons, 1.0], jnp.float32)
        return values[jnp.sum(iteration >= ends)]
