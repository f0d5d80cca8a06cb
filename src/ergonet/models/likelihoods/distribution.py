"""Likelihoods made of a NumPyro distribution of the network's outputs; all that predictions need is derived from it."""

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpyro.distributions import Distribution, constraints

from ergonet._checks import is_integer
from ergonet._errors import DataError, SettingError, shown
from ergonet._types import Array, Float, PRNGKey, Scalar
from ergonet.models.checked import real_targets
from ergonet.models.likelihood import Outputs, PerRow, Targets
from ergonet.models.likelihoods.learned import UNAVAILABLE, AbstractLearned, Values
from ergonet.models.network import Weights

DistributionFunction = Callable[[Array], Array]
PerTarget = Float[Array, "output targets rows"]
_SIMULATED = 512  # draws that replace a distribution function that NumPyro does not have
_MOST_STEPS = 124  # of a search, by doubling and halving
_WORDS = {
    "positive": "numbers above 0",
    "nonnegative": "numbers of at least 0",
    "unit_interval": "numbers strictly between 0 and 1",
    "nonnegative_integer": "whole numbers of at least 0",
    "positive_integer": "whole numbers of at least 1",
    "boolean": "0 or 1",
}
_NAMES: dict[int, str] = {id(getattr(constraints, name)): name for name in _WORDS}


class AbstractDistribution(AbstractLearned):
    """Base of likelihoods of real targets or counts, given by `distribution`."""

    is_classification: ClassVar[bool] = False

    @property
    def outputs_per_target(self) -> int:
        """Network outputs for each target, at least 1."""
        return 1

    @abc.abstractmethod
    def distribution(self, f: PerTarget, learned: Values) -> Distribution:
        """The distribution of every target of every row, with the batch shape `[targets, rows]`.

        Args:
            f: outputs of the network; `f[0]` is the first output of each target, `[targets, rows]`.
            learned: the learned parameters by name.
        """

    def log_density(self, f: PerTarget, learned: Values, targets: Targets) -> Targets:
        """Log density of every target; to be replaced where NumPyro's is inaccurate at extreme outputs."""
        return jnp.asarray(self.distribution(f, learned).log_prob(targets))

    def num_outputs(self, num_targets: int) -> int:
        return self.outputs_per_target * num_targets

    def prepare(self, y: Any, num_outputs: int) -> Targets:
        if num_outputs % self.outputs_per_target:
            raise SettingError(
                f"`{self.called}` needs {self.outputs_per_target} outputs of the network per target, got {num_outputs}."
            )
        num_targets = num_outputs // self.outputs_per_target
        found = self._sketch(num_targets)
        given = np.asarray(y)
        given = given if np.issubdtype(given.dtype, np.floating) else given.astype(np.float32)
        targets = real_targets(given, num_targets, self.called)
        _check_support(np.asarray(targets), found.support, self.called)
        return targets

    @property
    def called(self) -> str:
        """The likelihood in messages."""
        return f"{type(self).__name__}()"

    @property
    def is_discrete(self) -> bool:
        return self._sketch(1).is_discrete

    @property
    def needs_search(self) -> bool:
        """Whether quantiles are found by a search of the distribution function."""
        found = self._sketch(1)
        return found.is_discrete or not found.has_inverse

    @property
    def support(self) -> Any:
        """The values that a target can have, a NumPyro constraint, whose bounds may depend on the outputs."""
        return self._sketch(1).support

    def _sketch(self, num_targets: int) -> "_Sketch":
        """What is known of the distribution without its parameters.

        Raises:
            SettingError: it is not a distribution of `num_targets` numbers for every row.
        """
        sketches: list[_Sketch] = []

        def run(outputs: Outputs) -> None:
            own = self.initial_values(outputs.dtype)
            found: Any = self.distribution(self._per_target(outputs), self.values(own))
            if not isinstance(found, Distribution):
                raise SettingError(f"`{self.called}` must give a NumPyro distribution, got {shown(found)}.")
            if found.event_shape or found.batch_shape != (num_targets, 2):
                raise SettingError(
                    f"`{self.called}` must give a distribution with the batch shape [targets, rows] = "
                    f"{[num_targets, 2]} and no event shape for that many rows, got {list(found.batch_shape)} and "
                    f"{list(found.event_shape)}. `f[0]` has that shape."
                )
            support: Any = found.support
            found_inverse = _has_inverse(found, outputs)
            sketches.append(_Sketch(bool(support.is_discrete), support, has_inverse=found_inverse))

        jax.eval_shape(run, jax.ShapeDtypeStruct((self.num_outputs(num_targets), 2), jnp.float32))
        return sketches[0]

    def _per_target(self, outputs: Outputs) -> PerTarget:
        return outputs.reshape(self.outputs_per_target, -1, outputs.shape[-1])

    def _at(self, parameters: Weights, outputs: Outputs) -> Any:
        return self.distribution(self._per_target(outputs), self.values(parameters))

    def log_prob(self, parameters: Weights, outputs: Outputs, targets: Targets) -> PerRow:
        found = self.log_density(self._per_target(outputs), self.values(parameters), targets)
        return jnp.sum(found, axis=0).astype(outputs.dtype)

    def mean(self, parameters: Weights, outputs: Outputs) -> Array:
        found = self._at(parameters, outputs)
        return jnp.broadcast_to(found.mean, found.batch_shape).astype(outputs.dtype)

    def variance(self, parameters: Weights, outputs: Outputs) -> Array:
        found = self._at(parameters, outputs)
        return jnp.broadcast_to(found.variance, found.batch_shape).astype(outputs.dtype)

    def cdf(self, parameters: Weights, outputs: Outputs, value: Targets) -> Targets:
        found = self._at(parameters, outputs)
        return self.distribution_function(found, outputs)(value).astype(outputs.dtype)

    def quantile(self, parameters: Weights, outputs: Outputs, probability: Scalar | float) -> Targets:
        found = self._at(parameters, outputs)
        level = jnp.broadcast_to(jnp.asarray(probability, outputs.dtype), found.batch_shape)
        try:
            return found.icdf(level).astype(outputs.dtype)
        except UNAVAILABLE:
            function, is_whole = self.distribution_function(found, outputs), self.is_discrete
            mean, sd = self.mean(parameters, outputs), jnp.sqrt(self.variance(parameters, outputs))

            def excess(value: Array) -> Array:
                return function(value) - level

            return bracket(excess, mean, sd, is_whole=is_whole, is_narrow=True)[1]

    def distribution_function(self, found: Any, outputs: Outputs) -> DistributionFunction:
        """P(target <= value): NumPyro's, or that of simulated targets if NumPyro has none."""
        try:
            found.cdf(jnp.zeros(found.batch_shape, outputs.dtype))
        except UNAVAILABLE:
            ordered = self._simulated(found, outputs, _SIMULATED)
            return lambda value: jnp.mean(ordered <= value, axis=0)
        support = self._sketch(found.batch_shape[0]).support
        if support is constraints.nonnegative_integer:
            return lambda value: jnp.where(value < 0, 0.0, found.cdf(jnp.maximum(jnp.floor(value), 0.0)))
        if support is constraints.positive:
            least = jnp.finfo(outputs.dtype).tiny
            return lambda value: jnp.where(value <= 0, 0.0, found.cdf(jnp.maximum(value, least)))
        return found.cdf

    def _simulated(self, found: Any, outputs: Outputs, count: int) -> Array:
        """Targets `[count, targets, rows]`, always the same for the same outputs, and others for other outputs."""
        seed = lax.bitcast_convert_type(jnp.sum(outputs).astype(jnp.float32), jnp.uint32)
        key = jax.random.fold_in(jax.random.key(0), seed)
        return found.sample(key, (count,)).astype(outputs.dtype)

    def sample(self, key: PRNGKey, parameters: Weights, outputs: Outputs) -> Targets:
        return self._at(parameters, outputs).sample(key).astype(outputs.dtype)

    def monitor(self, parameters: Weights, outputs: Outputs) -> Array:
        return outputs


@dataclass(frozen=True)
class _Sketch:
    """Whether values are whole numbers; the support, with bounds that may depend on outputs; whether it has `icdf`."""

    is_discrete: bool
    support: Any
    has_inverse: bool


def _has_inverse(found: Distribution, outputs: Outputs) -> bool:
    try:
        found.icdf(jnp.full(found.batch_shape, 0.5, outputs.dtype))
    except UNAVAILABLE:
        return False
    return True


class FromDistribution(AbstractDistribution):
    """A likelihood of your own: a NumPyro distribution of the network's outputs.

    Attributes:
        function: maps the outputs to the distribution of the targets. `f[0]` is the first output for each target,
            `[targets, rows]`, and so on; learned parameters are further arguments, by name.
        outputs: network outputs for each target, at least 1.
        learned: prior of each learned parameter by name, a NumPyro distribution whose support is the constraint.
    """

    function: Callable[..., Distribution]
    outputs: int = eqx.field(static=True)
    learned: dict[str, Distribution]

    def __init__(
        self,
        function: Any,
        *,
        outputs: Any = 1,
        learned: Mapping[str, Any] | None = None,
    ):
        """Check the arguments, and that the function gives a distribution for outputs of a network.

        Raises:
            SettingError: an argument has the wrong type, or the function does not fit.
        """
        if not callable(function):
            raise SettingError(
                f"`FromDistribution(function)` must be a function of the outputs, got {shown(function)}."
            )
        if not is_integer(outputs) or outputs < 1:
            raise SettingError(
                f"`FromDistribution(outputs=...)` must be an integer of at least 1, got {shown(outputs)}."
            )
        for name, prior in (learned or {}).items():
            if not isinstance(prior, Distribution) or prior.is_discrete:
                raise SettingError(
                    f"`FromDistribution(learned={{{name!r}: ...}})` must be a continuous NumPyro distribution, the "
                    f"prior of {name!r}, got {shown(prior)}."
                )
        self.function, self.outputs = cast("Callable[..., Distribution]", function), outputs
        self.learned = dict(learned or {})
        self._sketch(1)

    @property
    def outputs_per_target(self) -> int:
        return self.outputs

    def priors(self) -> Mapping[str, Distribution]:
        return self.learned

    def distribution(self, f: PerTarget, learned: Values) -> Any:
        return self.function(f, **learned)


def bracket(
    excess: Callable[[Array], Array], around: Array, width: Array, *, is_whole: bool, is_narrow: bool = False
) -> tuple[Array, Array]:
    """Two values, elementwise: an increasing function is below 0 at the first, and at least 0 at the second.

    Args:
        excess: the function. It has a single place in the program, since that of counts takes long to compile.
        around: a guess of its root.
        width: half the width of the first bracket; where guess and width are not finite, 0 and 1 are taken.
        is_whole: whether only whole numbers are values.
        is_narrow: whether to bisect: the second value is the smallest at which the function is at least 0.
    """
    whole = jnp.floor if is_whole else jnp.asarray
    around, width = jnp.where(jnp.isfinite(around), around, 0.0), jnp.where(jnp.isfinite(width), width, 1.0)
    low, high = whole(around - width), whole(around + width)
    scale = jnp.maximum(jnp.abs(low), jnp.abs(high))

    def is_open(low: Array, high: Array, is_below: Array, is_above: Array) -> Array:
        size = jnp.maximum(jnp.maximum(jnp.abs(low), jnp.abs(high)), scale)
        least = 1.0 if is_whole else 4 * jnp.finfo(low.dtype).eps * size
        return ((high - low > least) & is_narrow) | ~(is_below & is_above)

    def step(carry: Any) -> Any:
        low, high, is_below, is_above, count = carry
        point = jnp.where(is_below, jnp.where(is_above, whole(0.5 * (low + high)), high), low)
        is_reached, further = excess(point) >= 0, jnp.maximum(2 * (high - low), 1.0)
        found = (
            jnp.where(is_reached, jnp.where(point <= low, point - further, low), point),
            jnp.where(is_reached, point, jnp.where(point >= high, point + further, high)),
            is_below | ~is_reached,
            is_above | is_reached,
        )
        goes_on = is_open(*carry[:4])
        return *(jnp.where(goes_on, new, old) for new, old in zip(found, carry[:4], strict=True)), count + 1

    def unfinished(carry: Any) -> Array:
        return jnp.any(is_open(*carry[:4])) & (carry[4] < _MOST_STEPS)

    unknown = jnp.zeros(low.shape, bool)
    return lax.while_loop(unfinished, step, (low, high, unknown, unknown, jnp.zeros((), jnp.int32)))[:2]


def _check_support(targets: np.ndarray, support: Any, called: str) -> None:
    """Check that every target is a possible value, unless these depend on the outputs; name the first that is not."""
    name = _NAMES.get(id(support), "")
    if not name:
        return
    is_fine = np.asarray(support(targets), bool)
    is_fine &= (targets > 0) & (targets < 1) if name == "unit_interval" else True
    if not is_fine.all():
        row, column = (int(one) for one in np.argwhere(~is_fine.T)[0])
        where = f", column {column}" if targets.shape[0] > 1 else ""
        raise DataError(
            f"`y` for `{called}` must be {_WORDS[name]}; row {row}{where} (counted from 0) has "
            f"{float(targets[column, row]):g}, one of {int((~is_fine).any(axis=0).sum())} such rows. Correct or remove "
            f"the rows, or choose another likelihood."
        )
