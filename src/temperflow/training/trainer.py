"""One epoch of training as a pure function: a rollout refills the buffer, then the residual is driven down."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from temperflow.models import Model
from temperflow.proposals import Proposal, Transport, Walker, rollout, target_calls, time_grid
from temperflow.proposals.weights import effective_sample_size, systematic_resample
from temperflow.training.bias import flattened
from temperflow.training.buffer import Buffer, Location, locations_of
from temperflow.training.curriculum import Curriculum
from temperflow.training.flat import flat
from temperflow.training.loss import Loss
from temperflow.training.state import EpochInfo, TrainState

ROLLOUT, BATCH, FOLLOWERS = 0, 1, 2  # what a key drawn within an epoch is for


class Trainer(eqx.Module):
    r"""Minimises the PINN residual at locations that a proposal visits (MATH.md section 2).

    Args:
        proposal: where to look.
        loss: what to minimise.
        optimiser: an optax transformation of the parameters as one vector.
        curriculum: how far to look.
        walkers: particles a rollout.
        steps: time steps a rollout.
        memory: rollouts the buffer holds.
        iterations: updates an epoch.
        batch: locations an update.
        resample_below: share of effective walkers under which a rollout resamples; 0 is never.
        averaging: decay of the parameters' moving average, per update.
        bias_rate: how fast ψ' learns to flatten the marginal of ξ; 0 keeps it as it is.
        weight_limit: log weights beyond it count as it in a weighted loss.
        followers: particles a rollout that follow the averaged control alone, at temperature one,
            half of them forwards from the source and half backwards from where cold walkers ended.
            Noise brings every other walker back to where the mass is. A draw of the flow that is led
            astray stays there, and mass that no draw reaches flows back to where no walker goes:
            without followers no residual is ever seen at either.

    >>> import jax, jax.numpy as jnp, optax
    >>> from temperflow.models import Control, ExactDivergence, FourierFeatures, FreeEnergy, Network
    >>> from temperflow.paths import Continuum, Identity
    >>> from temperflow.proposals import JointDensity, Transport
    >>> from temperflow.targets import Target
    >>> time = FourierFeatures(jax.random.key(0), dim=1, count=2, spread=1.0, raw_scale=1.0)
    >>> position = FourierFeatures(jax.random.key(3), dim=2, count=0, spread=1.0, raw_scale=1.0)
    >>> control = Control(Network(jax.random.key(1), 2, 4, 1, position, time), output_scale=1.0)
    >>> model = Model(control, FreeEnergy(Network(jax.random.key(2), 1, 4, 1, time=time)), potential=None)
    >>> target = Target(lambda x: -jnp.sum(x**2), dim=2)
    >>> proposal = Transport(JointDensity(Continuum(2, 1.0, Identity()), tempering=None), target)
    >>> trainer = Trainer(
    ...     proposal, Loss(ExactDivergence()), optax.adam(1e-3), Curriculum(),
    ...     walkers=8, steps=4, memory=3, iterations=100, batch=16,
    ... )
    >>> trainer.calls_per_epoch  # 8 walkers, at their start and after each of 4 steps; none for the 100 updates
    40
    """

    proposal: Proposal
    loss: Loss
    optimiser: optax.GradientTransformation = eqx.field(static=True)
    curriculum: Curriculum
    walkers: int = eqx.field(static=True)
    steps: int = eqx.field(static=True)
    memory: int = eqx.field(static=True)
    iterations: int = eqx.field(static=True)
    batch: int = eqx.field(static=True)
    resample_below: float = eqx.field(static=True, default=0.0)
    averaging: float = eqx.field(static=True, default=0.999)
    bias_rate: float = eqx.field(static=True, default=0.0)
    weight_limit: float = eqx.field(static=True, default=jnp.inf)
    followers: int = eqx.field(static=True, default=0)

    def start(self, model: Model, seed: int | Int[Array, ""]) -> TrainState:
        """The state before the first epoch."""
        tempering = self.proposal.joint.tempering
        # Copies throughout, so that the state's buffers can be donated to the next epoch's.
        return TrainState(
            _copied(model),
            _copied(model),
            self.optimiser.init(flat(model)[0]),
            Buffer.empty(self.memory, self.steps + 1, self.walkers + self.followers, self.proposal.joint.continuum.dim),
            jnp.zeros(2) if tempering is None else jnp.copy(tempering.confinement.bias),
            jnp.array(seed),
            jnp.array(0),
            jnp.array(0),
            jnp.array(0),
            jnp.ones(()),
        )

    def epoch(self, state: TrainState) -> tuple[TrainState, EpochInfo]:
        """One rollout and `iterations` updates. Makes `calls_per_epoch` target calls, all in the rollout."""
        key = jax.random.fold_in(jax.random.key(state.seed), state.epoch)
        horizon = self.curriculum(state.iteration)
        state, seen = self._explore(key, state, horizon)
        state, learned = self._learn(jax.random.fold_in(key, BATCH), state)
        state = eqx.tree_at(lambda s: s.epoch, state, state.epoch + 1)
        one = jnp.ones(())
        info = EpochInfo(
            **seen,
            **learned,
            horizon=horizon,
            free_energy=state.average.free_energy(one, one),
            skipped=state.skipped,
        )
        return state, info

    @property
    def calls_per_epoch(self) -> int:
        """Target evaluations, exactly."""
        # Followers that go back start where the target's value is known.
        led = target_calls(self._led, self.followers, self.steps) - self.followers // 2
        return target_calls(self.proposal, self.walkers, self.steps) + led

    @property
    def locations_per_epoch(self) -> int:
        """How many an epoch stores, usable or not."""
        return (self.walkers + self.followers) * (self.steps + 1)

    def proposal_at(self, state: TrainState) -> Proposal:
        """The proposal with the bias that the state has learned."""
        if self.proposal.joint.tempering is None:
            return self.proposal
        return self.proposal.with_bias(state.bias)

    @property
    def _led(self) -> Transport:
        """What followers do: the flow's own steps."""
        return Transport(self.proposal.untempered().joint, self.proposal.target)

    def _follow(self, key: PRNGKeyArray, last: Walker, model: Model, times: Float[Array, " slices"]) -> Location:
        """Where the flow alone leads: half the followers from the source on, half back from cold walkers' ends."""
        for_way, for_choice = jax.random.split(key)
        back = self.followers // 2
        cold = self.proposal.joint.cold_log_weight(last.log_weight, last.xi)
        chosen = systematic_resample(for_choice, jnp.where(jnp.isfinite(cold), 0.0, -jnp.inf), back)
        ends = jax.tree.map(lambda leaf: leaf[chosen], last)
        ends = eqx.tree_at(lambda w: w.log_weight, ends, jnp.zeros(back))
        ways = [
            rollout(for_way, self._led, model, self.followers - back, times),
            rollout(for_way, self._led, model, back, times[::-1], start=ends),
        ]
        each = [locations_of(way, self._led.joint, self.weight_limit) for way in ways]
        return jax.tree.map(lambda *leaves: jnp.concatenate(leaves, axis=1), *each)

    def _explore(
        self, key: PRNGKeyArray, state: TrainState, horizon: Float[Array, ""]
    ) -> tuple[TrainState, dict[str, Array]]:
        for_grid, for_walkers = jax.random.split(jax.random.fold_in(key, ROLLOUT))
        proposal, joint = self.proposal_at(state), self.proposal.joint
        times = time_grid(self.steps, horizon, 1.0 - jax.random.uniform(for_grid))
        run = rollout(for_walkers, proposal, state.model, self.walkers, times, self.resample_below)
        locations = locations_of(run, joint, self.weight_limit)
        if self.followers:
            apart = self._follow(jax.random.fold_in(key, FOLLOWERS), run.last, state.average, times)
            locations = jax.tree.map(lambda own, other: jnp.concatenate([own, other], axis=1), locations, apart)
        last = run.last
        beta = jax.vmap(joint.beta)(last.xi)
        hottest = 1.0 if joint.tempering is None else joint.tempering.map.hottest
        seen = {
            "ess": effective_sample_size(last.log_weight),
            "log_evidence": run.log_evidence(proposal, state.model),
            "cold_share": jnp.mean((beta == 1.0).astype(beta.dtype)),
            "hot_share": jnp.mean((beta <= hottest * 1.001).astype(beta.dtype)),
            "resampled": run.resampled,
            "dropped": jnp.sum(~locations.valid),
        }
        bias = state.bias
        if self.bias_rate > 0.0 and joint.tempering is not None:
            bias = flattened(bias, run.walkers.xi, joint.tempering.confinement.edge, self.bias_rate)
        state = eqx.tree_at(lambda s: (s.buffer, s.bias), state, (state.buffer.push(locations), bias))
        return state, seen

    def _learn(self, key: PRNGKeyArray, state: TrainState) -> tuple[TrainState, dict[str, Array]]:
        """`iterations` updates at locations drawn from the buffer, then a look at what the average has left."""
        parameters, restored = flat(state.model)
        average, _ = flat(state.average)
        # Random numbers for all updates at once: one at a time they are dozens of tiny operations each.
        keys = jax.vmap(lambda index: jax.random.split(jax.random.fold_in(key, index)))(jnp.arange(self.iterations))
        places = jax.vmap(lambda key: state.buffer.places(key, self.batch))(keys[:, 0])

        def update(carry: Any, inputs: Any) -> tuple[Any, tuple[Array, Array]]:
            parameters, average, optimiser, skipped = carry
            index, place, for_loss = inputs
            batch = state.buffer.at(place)
            (loss, _), gradient = jax.value_and_grad(
                lambda numbers: self._objective(restored(numbers), batch, for_loss), has_aux=True
            )(parameters)
            norm = optax.tree.norm(gradient)
            ok = jnp.isfinite(norm) & jnp.isfinite(loss)
            # optax raises floats to integer powers, which a host that promotes strictly would refuse.
            with jax.numpy_dtype_promotion("standard"):
                change, moved = self.optimiser.update(gradient, optimiser, parameters)
            stepped = parameters + state.patience * jnp.asarray(change)
            decay = self._decay(state.iteration + index)
            tried = (stepped, decay * average + (1.0 - decay) * stepped, moved)
            kept = jax.tree.map(lambda new, old: jnp.where(ok, new, old), tried, (parameters, average, optimiser))
            return (*kept, skipped + jnp.where(ok, 0, 1)), (loss, norm)

        (parameters, average, optimiser, skipped), (losses, norms) = jax.lax.scan(
            update,
            (parameters, average, state.optimiser, state.skipped),
            (jnp.arange(self.iterations), places, keys[:, 1]),
        )
        model, average = restored(parameters), restored(average)
        for_batch, for_loss = jax.random.split(jax.random.fold_in(key, self.iterations))
        _, squares = self._objective(average, state.buffer.sample(for_batch, max(self.batch, 1024)), for_loss)
        shown = {
            "loss": jnp.mean(losses),
            "gradient_norm": jnp.mean(norms),
            "residual": jnp.sqrt(jnp.nanmean(squares)),
            "residual_tail": jnp.sqrt(jnp.nanquantile(squares, 0.99)),
        }
        state = eqx.tree_at(
            lambda s: (s.model, s.average, s.optimiser, s.skipped, s.iteration),
            state,
            (model, average, optimiser, skipped, state.iteration + self.iterations),
        )
        return state, shown

    def _decay(self, iteration: Int[Array, ""]) -> Float[Array, ""]:
        """The average's decay: short of memory at first, so that the start is soon forgotten."""
        count = iteration.astype(jnp.float32)
        return jnp.minimum(self.averaging, (1.0 + count) / (10.0 + count))

    def _objective(
        self, model: Model, batch: Location, key: PRNGKeyArray
    ) -> tuple[Float[Array, ""], Float[Array, " batch"]]:
        return self.loss(key, model, batch, self.proposal.joint.continuum)


def _copied(model: Model) -> Model:
    arrays, static = eqx.partition(model, eqx.is_array)
    return eqx.combine(jax.tree.map(jnp.copy, arrays), static)
