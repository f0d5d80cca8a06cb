"""Faults to plant, each with the test that has to fail.

A fault is a substitution in one file of the library. Where the code has changed so that its text occurs no more, the
fault has to be written anew: `tests/unit/test_faults_can_be_planted.py` says so.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """A mistake that could be made.

    Attributes:
        name: what is wrong, in a few words.
        file: in `src/ergonet`.
        right: the text as it is.
        wrong: the text with the fault.
        test: what pytest is given; every path with its `-k` expression.
    """

    name: str
    file: str
    right: str
    wrong: str
    test: tuple[str, str]


JOINT, BEGIN = "tests/laws/test_joint.py", "tests/laws/test_begin.py"
INTEGERS, ORBITS = "tests/laws/test_doubling_on_integers.py", "tests/laws/test_doubling_on_orbits.py"
FIXED, WINDOWED = "tests/laws/test_fixed_trajectory.py", "tests/laws/test_windowed.py"
ESTIMATORS = "tests/unit/estimators/test_estimators.py"
ENCODING, LIKELIHOODS = "tests/unit/datasets/test_encoding.py", "tests/unit/models/test_likelihoods.py"
BOXES = "tests/laws/test_box.py"
TEMPERED, SWEEPS = "tests/unit/models/test_tempered.py", "tests/unit/comparison/test_temperatures.py"

FAULTS = (
    # Five that no test of the first suite caught.
    Fault(
        "HMC always accepts where the probability is above 0.7",
        "samplers/common.py",
        "accepted = uniform < probability\n",
        "accepted = uniform < jnp.where(probability > 0.7, 1.0, probability)\n",
        (JOINT, "accepted_as_often and hmc and not direction and not gibbs"),
    ),
    Fault(
        "the offset in a window is never its last place",
        "samplers/windowed_hmc.py",
        "jax.random.randint(window_key, (), 0, window)",
        "jax.random.randint(window_key, (), 0, jnp.maximum(window - 1, 1))",
        (BEGIN, "every_place"),
    ),
    Fault(
        "Dynamical A and B never swap the order of the blocks",
        "samplers/dynamical.py",
        "hyperparameters_first=jax.random.bernoulli(key_order)",
        "hyperparameters_first=jnp.zeros((), bool)",
        (JOINT, "joint_distribution and dynamical"),
    ),
    Fault(
        "the log slice level is 0.97 of what it should be",
        "trajectory/selection.py",
        "return jnp.log1p(-uniform)",
        "return 0.97 * jnp.log1p(-uniform)",
        (BEGIN, "level_of_a_slice"),
    ),
    Fault(
        "the upper level of an interval is 2 % too low",
        "estimators/regressor.py",
        "levels=(0.5 - level / 2, 0.5 + level / 2)",
        "levels=(0.5 - level / 2, 0.98 * (0.5 + level / 2))",
        (ESTIMATORS, "both_tails"),
    ),
    # Ten common ones.
    Fault(
        "the accept step is dropped",
        "samplers/common.py",
        "accepted = uniform < probability\n",
        "accepted = uniform < 2.0\n",
        (FIXED, "state_moves"),
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
        "a multinomial weight is off by 1 %",
        "trajectory/selection.py",
        "        return -energy_error\n",
        "        return -1.01 * energy_error\n",
        (INTEGERS, "balance_without_turns"),
    ),
    Fault(
        "a factor of the noise is missing",
        "samplers/stochastic/sgld.py",
        "jnp.sqrt(2 * ",
        "jnp.sqrt(",
        ("tests/laws/test_minibatch_kernels.py", "sgld_is_discretized"),
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
    # Ten that the tests' helpers know.
    Fault(
        "a subtree always replaces the draw of the tree",
        "trajectory/selection.py",
        "return jnp.minimum(1.0, jnp.exp(log_subtree - log_tree))",
        "return jnp.ones_like(log_tree)",
        (INTEGERS, "balance_without_turns"),
    ),
    Fault(
        "a subtree replaces the draw of the tree by the inverse ratio",
        "trajectory/selection.py",
        "jnp.exp(log_subtree - log_tree)",
        "jnp.exp(log_tree - log_subtree)",
        (INTEGERS, "balance_without_turns"),
    ),
    Fault(
        "a leaf replaces the draw of its subtree too often",
        "trajectory/selection.py",
        "return jnp.exp(log_weight - log_total)",
        "return jnp.minimum(1.0, 2 * jnp.exp(log_weight - log_total))",
        (INTEGERS, "balance_without_turns"),
    ),
    Fault(
        "states are weighed by e^+H",
        "trajectory/selection.py",
        "        return -energy_error\n",
        "        return energy_error\n",
        (INTEGERS, "balance_without_turns"),
    ),
    Fault(
        "a slice has its states on the wrong side",
        "trajectory/selection.py",
        "jnp.where(threshold <= -energy_error, 0.0, -jnp.inf)",
        "jnp.where(threshold <= energy_error, 0.0, -jnp.inf)",
        (INTEGERS, "every_level"),
    ),
    Fault(
        "a turn inside a subtree does not reject it",
        "trajectory/doubling.py",
        "rejected=divergent | turned_inside,",
        "rejected=divergent,",
        (INTEGERS, "random_turns"),
    ),
    Fault(
        "the windows' ratio is upside down",
        "trajectory/windowed.py",
        "jnp.exp(t.log_weights[1] - t.log_weights[0])",
        "jnp.exp(t.log_weights[0] - t.log_weights[1])",
        (WINDOWED, "balance_is_exact"),
    ),
    Fault(
        "half kicks of the split leapfrog are whole",
        "trajectory/split.py",
        "momentum = phase.momentum - 0.5 * move * phase.gradient",
        "momentum = phase.momentum - move * phase.gradient",
        ("tests/laws/test_split_leapfrog.py", "volume or there_and_back"),
    ),
    Fault(
        "a trajectory never goes backward",
        "trajectory/doubling.py",
        "jnp.where(forward == 1, step_size, -step_size)",
        "step_size",
        (ORBITS, "balance_along"),
    ),
    Fault(
        "acceptance ignores the energy of the momentum",
        "samplers/common.py",
        "ratio = jnp.exp(self.energy_start - self.energy)",
        "ratio = jnp.exp(self.start.potential - self.end.potential)",
        (FIXED, "balances"),
    ),
    Fault(
        "MAMS forgets the growth of the kinetic energy",
        "hamiltonian/microcanonical.py",
        "        return self.potential + self.kinetic_energy\n",
        "        return self.potential\n",
        (JOINT, "invariant and mams"),
    ),
    Fault(
        "the direction of a microcanonical kernel is not uniform",
        "hamiltonian/microcanonical.py",
        "jax.random.normal(key, like.shape, like.dtype)))",
        "jax.random.uniform(key, like.shape, like.dtype)))",
        (JOINT, "invariant and mams"),
    ),
    # Tables.
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
    # Likelihoods and weights of rows.
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
        "samplers/common.py",
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
    # Boxes, parts and their masses.
    Fault(
        "a wall does not turn the momentum",
        "hamiltonian/box.py",
        "jnp.where(turned, -momentum, momentum)",
        "momentum",
        (BOXES, ""),
    ),
    Fault(
        "a wall stops the momentum under a dense metric",
        "hamiltonian/box.py",
        "(2 * sign * speed / jnp.sum(row * row))",
        "(sign * speed / jnp.sum(row * row))",
        (BOXES, ""),
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
        "microcanonical kicks gain half of the kinetic energy",
        "hamiltonian/microcanonical.py",
        "growth = (dim - 1) * ",
        "growth = 0.5 * (dim - 1) * ",
        (JOINT, "mams"),
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
