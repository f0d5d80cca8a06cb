"""The compiled loop of a mean-field fit.

The target becomes a NumPyro program with one flat site and a factor. NumPyro's negative bounds (`Trace_ELBO`,
`RenyiELBO`) are differentiated by JAX and minimized by Optax.
"""

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import optax
from jax import lax
from numpyro import distributions as dist
from numpyro.distributions import constraints
from numpyro.distributions.transforms import biject_to
from numpyro.infer import RenyiELBO, Trace_ELBO

from ergonet._errors import DivergedError
from ergonet._types import Array, Count, Float, Int, PRNGKey, Scalar
from ergonet.samplers.stochastic.ordering import shuffle
from ergonet.target.capabilities import Rows
from ergonet.target.contract import AbstractTarget, require
from ergonet.target.layout import count_rows

STEPS_PER_CALL = 500  # steps in one call of the compiled loop, unless a single epoch has more
START_KEY, DRAW_KEY, ORDER_KEY, STEP_KEY = range(4)  # folded into the key


class Rule(NamedTuple):
    """Settings of the compiled loop.

    Attributes:
        alpha: order of the Renyi divergence.
        num_particles: draws from q per gradient.
        transformation: Optax transformation of the gradients.
        learning_rate: initial learning rate of the cosine schedule; None: the transformation includes its own.
        batch_size: rows of a minibatch; 0: all rows.
    """

    alpha: float
    num_particles: int
    transformation: optax.GradientTransformation
    learning_rate: Array | None
    batch_size: int


class State(eqx.Module):
    """State of the fit between two steps.

    Attributes:
        params: `loc` and `raw_scale`, the scale before its bijector, each `[dim]`.
        optimizer: state of the optimizer.
        step: number of steps so far.
    """

    params: dict[str, Array]
    optimizer: Any
    step: Count


class Fitted(NamedTuple):
    """Result of a fit.

    Attributes:
        losses: negative bound of each epoch `[epoch]`.
        epochs: epochs after which q was kept `[kept]`.
        kept: q after these epochs: `loc` and `scale`, each `[kept, dim]`.
        num_steps: number of steps.
        compile_seconds: time of the compilation.
    """

    losses: np.ndarray
    epochs: np.ndarray
    kept: Mapping[str, np.ndarray]
    num_steps: int
    compile_seconds: float


def drive(
    rule: Rule, target: AbstractTarget, rows: Any, start: tuple[PRNGKey, State], *, num_epochs: int, keep_every: int
) -> Fitted:
    """Run the compiled loop in chunks of epochs, and keep q between chunks as requested."""
    key, state = start
    num_batches = _rows(target).num_rows // rule.batch_size if rule.batch_size else 1
    capacity = min(num_epochs, max(1, STEPS_PER_CALL // num_batches))
    total = jnp.asarray(num_epochs * num_batches, jnp.int32)
    began = time.perf_counter()
    nothing = jnp.zeros((), jnp.int32)
    state, _ = _advance(rule, target, rows, (key, state), (nothing, nothing, total), capacity=capacity)
    compile_seconds = time.perf_counter() - began
    losses, epochs, kept, done = [], [], [], 0
    while done < num_epochs:
        count = min(capacity, num_epochs - done, keep_every - done % keep_every)
        span = jnp.asarray(done, jnp.int32), jnp.asarray(count, jnp.int32), total
        state, loss = _advance(rule, target, rows, (key, state), span, capacity=capacity)
        done += count
        losses.append(np.asarray(loss)[:count])
        if not np.all(np.isfinite(losses[-1])):
            raise _diverged(target, start[1].params["loc"], done)
        if done == num_epochs or done % keep_every == 0:
            epochs.append(done)
            kept.append({name: np.asarray(value) for name, value in _constrained(state.params).items()})
    together = {name: np.stack([one[name] for one in kept]) for name in kept[0]}
    return Fitted(np.concatenate(losses), np.asarray(epochs), together, int(total), compile_seconds)


def _diverged(target: AbstractTarget, start: Array, epochs: int) -> DivergedError:
    if not bool(jnp.isfinite(target.potential(start))):
        culprit = target.explain(start)
        return DivergedError(f"The density is not finite at the start of the variational fit: {culprit}. Give `init`.")
    return DivergedError(
        f"The variational loss is not finite within {epochs} epochs. Lower the learning rate of `optimizer`, e.g. by a "
        f"factor of 10, or `initial_sd`."
    )


def _scale_bijector() -> Any:
    return biject_to(constraints.softplus_positive)


def _constrained(params: Mapping[str, Array]) -> dict[str, Array]:
    return {"loc": params["loc"], "scale": _scale_bijector()(params["raw_scale"])}


def _program(target: AbstractTarget, minibatch: Any) -> None:
    """The target as a NumPyro program."""
    position: Any = numpyro.sample("position", dist.ImproperUniform(constraints.real_vector, (), (target.dim,)))
    given_rows = minibatch is not None
    potential = _rows(target).minibatch_potential(position, minibatch) if given_rows else target.potential(position)
    numpyro.factor("density", -potential)


def _guide(target: AbstractTarget, minibatch: Any) -> None:
    """The approximation q as a NumPyro guide; the caller substitutes its parameters."""
    del minibatch
    loc, scale = numpyro.param("loc", jnp.zeros(target.dim)), numpyro.param("scale", jnp.ones(target.dim))
    numpyro.sample("position", dist.Normal(loc, scale).to_event(1))


def _rows(target: AbstractTarget) -> Rows:
    return require(target, Rows, "MeanFieldVariational")


@eqx.filter_jit
def begin(rule: Rule, target: AbstractTarget, key: PRNGKey, loc: Array | None, initial_sd: Scalar) -> State:
    """The state before the first step."""
    loc = target.initial_position(jax.random.fold_in(key, START_KEY)) if loc is None else loc
    raw = jnp.full_like(loc, _scale_bijector().inv(initial_sd.astype(loc.dtype)))
    params = {"loc": loc, "raw_scale": raw}
    return State(params=params, optimizer=rule.transformation.init(params), step=jnp.zeros((), jnp.int32))


@eqx.filter_jit
def _advance(
    rule: Rule,
    target: AbstractTarget,
    rows: Any,
    carry: tuple[PRNGKey, State],
    span: tuple[Count, Count, Count],
    *,
    capacity: int,
) -> tuple[State, Float[Array, "epoch"]]:
    """Run `count` epochs from epoch `first` on, in a fit of `total` steps; `span` is `(first, count, total)`."""
    key, state = carry
    first, count, total = span

    def epoch(number: Count, carry: tuple[State, Array]) -> tuple[State, Array]:
        state, losses = carry
        order = _order(rule, rows, key, first + number)
        num_batches = 1 if order is None else order.shape[0]

        def step(batch: Count, carry: tuple[State, Scalar]) -> tuple[State, Scalar]:
            state, sum_ = carry
            chosen = None if order is None else order[batch]
            minibatch = None if chosen is None else jax.tree.map(lambda leaf: leaf[chosen], rows)
            state, loss = _step(rule, target, minibatch, (key, state), total)
            return state, sum_ + loss

        state, sum_ = lax.fori_loop(0, num_batches, step, (state, jnp.zeros((), losses.dtype)))
        return state, losses.at[number].set(sum_ / num_batches)

    return lax.fori_loop(0, count, epoch, (state, jnp.zeros((capacity,), state.params["loc"].dtype)))


def _order(rule: Rule, rows: Any, key: PRNGKey, epoch: Count) -> Int[Array, "batch row"] | None:
    if not rule.batch_size:
        return None
    key = jax.random.fold_in(key, ORDER_KEY)
    return shuffle(key, epoch, num_rows=count_rows(rows), batch_size=rule.batch_size, num_epochs=1)


def _step(
    rule: Rule, target: AbstractTarget, minibatch: Any, carry: tuple[PRNGKey, State], total: Count
) -> tuple[State, Scalar]:
    key, state = carry
    key = jax.random.fold_in(jax.random.fold_in(key, STEP_KEY), state.step)
    is_elbo = rule.alpha == 1
    bound = Trace_ELBO(rule.num_particles) if is_elbo else RenyiELBO(rule.alpha, rule.num_particles)

    def loss(params: dict[str, Array]) -> Scalar:
        return jnp.asarray(bound.loss(key, _constrained(params), _program, _guide, target, minibatch))

    value, gradient = jax.value_and_grad(loss)(state.params)
    updates, optimizer = rule.transformation.update(gradient, state.optimizer, state.params)
    if rule.learning_rate is not None:
        rate = 0.5 * rule.learning_rate * (1 + jnp.cos(jnp.pi * state.step / total))
        updates = jax.tree.map(lambda update: (-rate * update).astype(update.dtype), updates)
    params: Any = optax.apply_updates(state.params, updates)
    return State(params=params, optimizer=optimizer, step=state.step + 1), value


@eqx.filter_jit
def draws(key: PRNGKey, mean: Array, sd: Array, num_draws: int) -> Float[Array, "draw dim"]:
    """Independent draws from q."""
    noise = jax.random.normal(jax.random.fold_in(key, DRAW_KEY), (num_draws, mean.shape[0]), mean.dtype)
    return mean + sd * noise
