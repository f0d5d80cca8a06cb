"""Faults to plant, each with the test that has to fail.

A fault is a substitution in one file of the library. Where the code has changed so that its text occurs no more, the
fault has to be written anew: `tests/unit/test_faults_can_be_planted.py` says so.
"""

from tests.faults.fault import Fault
from tests.faults.laws import OF_LAWS

ESTIMATORS = "tests/unit/estimators/test_estimators.py"
ENCODING, LIKELIHOODS = "tests/unit/datasets/test_encoding.py", "tests/unit/models/test_likelihoods.py"
TEMPERED, SWEEPS = "tests/unit/models/test_tempered.py", "tests/unit/comparison/test_temperatures.py"

FAULTS = (
    *OF_LAWS,
    Fault(
        "the upper level of an interval is 2 % too low",
        "estimators/regressor.py",
        "levels=(0.5 - level / 2, 0.5 + level / 2)",
        "levels=(0.5 - level / 2, 0.98 * (0.5 + level / 2))",
        (ESTIMATORS, "both_tails"),
    ),
    Fault(
        "the sign of a Jacobian",
        "models/precision.py",
        "return shape * (log_precision - log_mean) - shape * ratio + constant",
        "return (shape - 2) * (log_precision - log_mean) - shape * ratio + constant",
        ("tests/unit/models/prior/test_hierarchical.py", "scipy"),
    ),
    Fault(
        "a shape parameter is off by a half",
        "models/precision.py",
        "jax.random.loggamma(key, alpha / 2 + count / 2,",
        "jax.random.loggamma(key, alpha / 2 + count / 2 + 0.5,",
        ("tests/unit/models/prior/test_hierarchical.py", "given_weights_are_gamma"),
    ),
    Fault(
        "a stale gradient after a Gibbs draw",
        "samplers/gibbs_hmc.py",
        "self.update.init(given, trajectory.weights), tuning)",
        "trajectory.update.start, tuning)",
        ("tests/statistical/test_conformance_blocks.py", "first_gradient"),
    ),
    Fault(
        "every chain has the key of the first",
        "inference/chains.py",
        "key = jax.random.fold_in(key_of_words(low, high), chain)",
        "key = jax.random.fold_in(key_of_words(low, high), 0 * chain)",
        ("tests/unit/inference/test_determinism.py", "chain"),
    ),
    Fault(
        "thinning is off by one",
        "inference/chains.py",
        "for number in (count, work, thin))",
        "for number in (count, work, thin - (thin > 1)))",
        ("tests/unit/inference/test_determinism.py", "thin"),
    ),
    Fault(
        "the scale of a target is not undone",
        "prediction/units.py",
        "mean = np.asarray(found.mean, np.float64) * factor + shift",
        "mean = np.asarray(found.mean, np.float64)",
        (ESTIMATORS, "units_of_y"),
    ),
    Fault(
        "the mean of a transformed target is the inverse of a mean",
        "datasets/transforms.py",
        "first = xp.exp(mean + variance / 2)",
        "first = xp.exp(mean)",
        ("tests/unit/datasets/test_transforms.py", "moments"),
    ),
    Fault(
        "log scores lack the slope of a transform",
        "prediction/units.py",
        "np.asarray(values, np.float64) + slope",
        "np.asarray(values, np.float64)",
        ("tests/unit/estimators/test_target_transform.py", "log_scores"),
    ),
    Fault(
        "draws are moved to new rows without their weights",
        "inference/updating.py",
        "population.resample(_weights(power * ratio), rng)",
        "population.resample(_weights(0 * ratio), rng)",
        ("tests/unit/estimators/test_updating.py", "stand_still"),
    ),
    Fault(
        "the quantile of a mixture is one draw short",
        "prediction/quantiles.py",
        "return lax.fori_loop(0, num_draws, add, jnp.zeros_like(values)) / num_draws",
        "return lax.fori_loop(1, num_draws, add, jnp.zeros_like(values)) / num_draws",
        ("tests/unit/prediction/test_quantiles.py", "mixture"),
    ),
    Fault(
        "an unseen category is taken for the first one",
        "datasets/encoding.py",
        "[len(positions) if one is None else one for one in found]",
        "[0 if one is None else one for one in found]",
        (ENCODING, "unseen"),
    ),
    Fault(
        "missing numbers are not marked",
        "datasets/encoding.py",
        "np.column_stack([inputs, missing])",
        "np.column_stack([inputs, 0 * missing])",
        (ENCODING, "missing_numbers"),
    ),
    Fault(
        "the week begins a day late",
        "datasets/dates.py",
        "(whole.astype(np.int64) + 3) % 7",
        "(whole.astype(np.int64) + 4) % 7",
        (ENCODING, "dates"),
    ),
    Fault(
        "counts are not in the unit of their likelihood",
        "models/likelihoods/counts.py",
        "return f[0] + math.log(self.unit)",
        "return f[0]",
        (LIKELIHOODS, "scipy"),
    ),
    Fault(
        "extra zeros have the probability of the others",
        "models/likelihoods/counts.py",
        "jnp.logaddexp(jax.nn.log_sigmoid(f[1]), own)",
        "jnp.logaddexp(jax.nn.log_sigmoid(-f[1]), own)",
        (LIKELIHOODS, "extra_zeros"),
    ),
    Fault(
        "the first ordered class has the probability of the last one",
        "models/likelihoods/ordinal.py",
        "jnp.concatenate([upper[:1], middle, lower[-1:]], axis=0)",
        "jnp.concatenate([lower[-1:], middle, upper[:1]], axis=0)",
        (LIKELIHOODS, "ordered"),
    ),
    Fault(
        "the floor of the noise adds four times its variance",
        "models/likelihood.py",
        "jax.nn.softplus(log_precision + 2 * jnp.log(of_targets(self.floor)))",
        "jax.nn.softplus(log_precision + 2 * jnp.log(of_targets(self.floor)) + math.log(4))",
        ("tests/unit/models/test_densities.py", "floor"),
    ),
    Fault(
        "the ceiling of the noise adds its scale instead of its precision",
        "models/likelihood.py",
        "jnp.logaddexp(log_precision, -2 * jnp.log(of_targets(self.ceiling)))",
        "jnp.logaddexp(log_precision, 2 * jnp.log(of_targets(self.ceiling)))",
        ("tests/unit/models/test_densities.py", "ceiling"),
    ),
    Fault(
        "the first microcanonical step may lose any energy",
        "samplers/mclmc.py",
        "return -jnp.abs(error)",
        "return -error",
        ("tests/unit/samplers/test_mclmc.py", "first_step"),
    ),
    Fault(
        "a step of MCLMC that is far off in energy is kept",
        "samplers/mclmc.py",
        "jnp.abs(error) <= DIVERGENCE_THRESHOLD",
        "jnp.isfinite(error)",
        ("tests/unit/samplers/test_mclmc.py", "far_off"),
    ),
    Fault(
        "a location beyond the reach is cut off there, where it has no gradient",
        "models/likelihood.py",
        "* (2 - reach / jnp.maximum(jnp.abs(mean), reach))",
        "",
        ("tests/unit/models/test_densities.py", "reach"),
    ),
    Fault(
        "weights of rows do not reach the density",
        "models/weighting.py",
        "jnp.where(weights > 0, weights * rows, 0.0)",
        "jnp.where(weights > 0, rows, 0.0)",
        ("tests/unit/models/test_row_weights.py", "copies"),
    ),
    Fault(
        "the probability integral transform of counts is not random",
        "prediction/pit.py",
        "below + uniform * (reached - below)",
        "below + 0.5 * (reached - below)",
        ("tests/unit/prediction/test_distributions.py", "mixture"),
    ),
    Fault(
        "the error of a mass leaves out that of the proposals",
        "partition/bridge.py",
        "math.sqrt(of_proposals + of_chains)",
        "math.sqrt(of_chains)",
        ("tests/statistical/test_evidence.py", "cover"),
    ),
    Fault(
        "errors of joined means leave out those of the masses",
        "partition/joined.py",
        "** 2 + of_masses**2).sum",
        "** 2 + 0 * of_masses**2).sum",
        ("tests/unit/partition/test_joined.py", "errors_of_masses"),
    ),
    Fault(
        "flipped signs are no copies of a posterior",
        "partition/copies.py",
        "math.lgamma(units + 1) + units * signs",
        "math.lgamma(units + 1)",
        ("tests/unit/partition/test_copies.py", "symmetry"),
    ),
    Fault(
        "the prior of a tempered posterior stays as it is",
        "models/tempered.py",
        "of_prior = of_rows if form == Tempering.POSTERIOR else jnp.ones_like(of_rows)",
        "of_prior = jnp.ones_like(of_rows)",
        (TEMPERED, "density_of_its_closed_form"),
    ),
    Fault(
        "minibatches of a tempered posterior temper the prior in either form",
        "models/tempered.py",
        "self.of_prior - self.of_rows",
        "0 * self.of_prior",
        (TEMPERED, "two_forms"),
    ),
    Fault(
        "differences between temperatures are not paired",
        "comparison/scored.py",
        "standard_error(self.rows - other.rows)",
        "float(np.hypot(self.error, other.error))",
        (SWEEPS, "paired"),
    ),
    Fault(
        "differences between temperatures leave out Monte Carlo errors",
        "comparison/temperatures.py",
        "one.apart(base) ** 2 + one.chance**2 + base.chance**2",
        "one.apart(base) ** 2",
        (SWEEPS, "monte_carlo"),
    ),
)
