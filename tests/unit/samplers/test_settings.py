"""Settings out of their range are refused before any work, in a sentence that names argument and value."""

import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergonet
from ergonet import (
    HMC,
    MALA,
    MAMS,
    MCLMC,
    MLP,
    NUTS,
    XHMC,
    BayesianNetwork,
    DelayedRejectionHMC,
    GibbsHMC,
    WindowedHMC,
    diagnostics,
    likelihoods,
    priors,
)
from ergonet._errors import SettingError
from ergonet.hamiltonian.integrator import Composition
from ergonet.hamiltonian.metric import DenseMetric, DiagonalMetric, GradientDiagonalMetric
from ergonet.inference.devices import place
from ergonet.samplers import _settings as check
from ergonet.samplers.base import run_transition
from ergonet.trajectory.criterion import Exhaustive, Generalized, Original
from ergonet.trajectory.registry import CRITERIA, SELECTIONS
from ergonet.trajectory.selection import Multinomial, Slice
from tests.sampling import draw, gaussian_target
from tests.stages import cases, slow


@pytest.mark.parametrize("kernel", [NUTS, HMC])
@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"step_size": 0.0}, r"step_size=...\)` must be a finite number above 0, got 0.0"),
        ({"step_size": -0.1}, "got -0.1"),
        ({"step_size": float("inf")}, "got inf"),
        ({"target_acceptance": 1.0}, r"target_acceptance=...\)` must be between 0 and 1, got 1.0"),
        ({"target_acceptance": -0.5}, "got -0.5"),
        ({"metric": "diag"}, r"metric='diag'\)` is not known. Did you mean 'diagonal'"),
        ({"integrator": "leapfrogg"}, r"(HMC|NUTS)\(integrator='leapfrogg'\)` is not known. Did you mean 'leapfrog'"),
    ],
)
def test_both_kernels_refuse(kernel, settings, complaint):
    with pytest.raises(SettingError, match=complaint):
        kernel(**settings)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: NUTS(max_doublings=0), r"`NUTS\(max_doublings=...\)` must be an integer of at least 1, got 0"),
        (lambda: NUTS(max_doublings=21), "at most 20"),
        (lambda: MAMS(memory=0.0), r"`MAMS\(memory=...\)` must be a finite number above 0, got 0.0"),
        (lambda: HMC(num_steps=0), r"`HMC\(num_steps=...\)` must be an integer of at least 1, got 0"),
        (lambda: HMC(num_steps=10**10), r"`HMC\(num_steps=...\)` must be at most 1073741824, got 10000000000"),
        (lambda: DelayedRejectionHMC(1.0), r"`DelayedRejectionHMC\(reduction=...\)` must be a finite number above 1"),
        (lambda: DelayedRejectionHMC(float("nan")), r"`DelayedRejectionHMC\(reduction=...\)` .* above 1, got nan"),
        (lambda: DelayedRejectionHMC(num_steps=0), r"`DelayedRejectionHMC\(num_steps=...\)`"),
        (lambda: DelayedRejectionHMC(integrator="frog"), r"`DelayedRejectionHMC\(integrator='frog'\)` is not known"),
        (lambda: WindowedHMC(10**10), r"`WindowedHMC\(window=...\)` must be at most 1073741824"),
        (lambda: XHMC(integrator="frog"), r"`XHMC\(integrator='frog'\)` is not known"),
        (lambda: WindowedHMC(integrator="frog"), r"`WindowedHMC\(integrator='frog'\)` is not known"),
        (lambda: HMC(step_jitter=1.0), "step_jitter"),
        (lambda: HMC(length_jitter=-0.1), "length_jitter"),
        (lambda: HMC(direction="randomly"), r"`HMC\(direction='randomly'\)` is not known. Did you mean 'random'"),
        (lambda: NUTS(criterion="generalised"), r"`NUTS\(criterion='generalised'\)` .* Did you mean 'generalized'"),
        (lambda: NUTS(selection="slices"), r"`NUTS\(selection='slices'\)` is not known. Did you mean 'slice'"),
        (lambda: NUTS(criterion=Exhaustive(-1.0)), r"`Exhaustive\(delta=...\)` must be .* above 0, got -1.0"),
        (lambda: XHMC(0.0), r"`XHMC\(delta=...\)` must be a finite number above 0, got 0.0"),
        (lambda: XHMC(selection="uniform"), r"`XHMC\(selection='uniform'\)` is not known. .*multinomial, slice"),
        (lambda: XHMC(max_doublings=21), r"`XHMC\(max_doublings=...\)` must be at most 20"),
        (lambda: XHMC(step_size=-1.0), r"`XHMC\(step_size=...\)`"),
        (lambda: XHMC(metric="euclid"), r"`XHMC\(metric='euclid'\)` is not known"),
        (lambda: XHMC(target_acceptance=2.0), r"`XHMC\(target_acceptance=...\)`"),
        (
            lambda: HMC(metric=DiagonalMetric(jnp.array([1.0, 2.0, 0.0]))),
            r"`HMC\(metric=\.\.\.\)` must be finite, .* coordinate 2 .* of the `DiagonalMetric` has 0\.",
        ),
        (lambda: NUTS(metric=GradientDiagonalMetric(jnp.array([1.0, -3.0]))), "coordinate 1 .* has -3"),
        (lambda: MCLMC(metric=DiagonalMetric(jnp.array([jnp.inf, 1.0]))), "coordinate 0 .* has inf"),
        (lambda: NUTS(metric=DenseMetric(jnp.array([[1.0, 0.0], [jnp.nan, 1.0]]))), "coordinate 1 .* has nan"),
        (lambda: NUTS(metric=DenseMetric(jnp.array([[1.0, 0.0], [5.0, -1.0]]))), "coordinate 1 .* has -1"),
        (lambda: MALA(step_size=-1.0), r"`MALA\(step_size=...\)` must be a finite number above 0, got -1.0"),
        (lambda: MALA(metric="diag"), r"`MALA\(metric='diag'\)` is not known"),
        (lambda: WindowedHMC(num_steps=0), r"`WindowedHMC\(num_steps=...\)` must be an integer of at least 1, got 0"),
        (lambda: WindowedHMC(step_size=0.0), r"`WindowedHMC\(step_size=...\)`"),
        (lambda: WindowedHMC(step_jitter=1.0), r"`WindowedHMC\(step_jitter=...\)` must be at least 0 and below 1"),
    ],
)
def test_one_kernel_refuses(make, complaint):
    with pytest.raises(SettingError, match=complaint):
        make()


@pytest.mark.parametrize("number", [np.float32(0.25), np.float64(0.25), np.int32(1), 1])
def test_numbers_of_numpy_are_numbers(number):
    """Such as the step sizes that a run has learned."""
    check.require_positive("NUTS", "step_size", number)
    check.require_at_least("NUTS", "step_size", number, 0.1)


PARTS = {"original": Original(), "generalized": Generalized(), "exhaustive": Exhaustive()}


@pytest.mark.parametrize("criterion", cases(CRITERIA.names(), quick=["exhaustive"]))
@pytest.mark.parametrize("selection", SELECTIONS.names())
def test_every_criterion_takes_every_selection_by_name_or_as_an_object(criterion, selection):
    parts = PARTS[criterion], {"multinomial": Multinomial(), "slice": Slice()}[selection]
    by_name, as_objects = NUTS(criterion=criterion, selection=selection), NUTS(criterion=parts[0], selection=parts[1])
    assert by_name == as_objects
    assert (by_name.trajectory.criterion, by_name.trajectory.selection) == parts
    target, position = gaussian_target(), jnp.ones(5)
    kernel = NUTS(criterion=criterion, selection=selection, step_size=0.3, max_doublings=5, metric="dense")
    state, tuning = kernel.init(target, position), kernel.tuning(target, position)
    run = jax.jit(jax.vmap(lambda key: run_transition(kernel, key, target, state, tuning)))
    new, info = run(jax.random.split(jax.random.key(2), 8))
    assert np.all(np.isfinite(new.position))
    assert np.any(np.asarray(info.moved))
    assert not np.any(np.asarray(info.diverging))


def test_defaults_of_a_tree():
    assert NUTS() == NUTS(criterion="generalized", selection="multinomial")
    assert XHMC().trajectory == NUTS(criterion="exhaustive").trajectory
    assert XHMC(0.3, selection="slice").trajectory == NUTS(criterion=Exhaustive(0.3), selection=Slice()).trajectory
    assert HMC() == HMC(direction="forward") != HMC(direction="random")


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"num_chains": 0}, "`num_chains` must be an integer of at least 1, got 0"),
        ({"num_draws": 0}, "`num_draws`"),
        ({"thin": 10**10}, "`thin` must be at most"),
        ({"thin": 0}, "`thin`"),
        ({"num_warmup": -1}, "`num_warmup` must be an integer of at least 0, got -1"),
        ({"seed": -1}, "`seed` must be an integer from 0"),
        ({"seed": 2**63}, "`seed`"),
        ({"time_limit": 0.0}, "`time_limit` must be above 0 seconds"),
        ({"time_limit": float("nan")}, "`time_limit`"),
        ({"devices": 0}, "`devices`"),
        ({"devices": []}, "at least one `jax.Device`"),
    ],
)
def test_a_run_refuses(settings, complaint):
    with pytest.raises(SettingError, match=complaint):
        draw(**settings)


WRONG_KINDS = """
    import numpy as np, jax.numpy as jnp
    import ergonet
    from ergonet import HMC, MLP, NUTS, BayesianNetwork, Target, likelihoods, priors
    from ergonet.adaptation.recipes import stan_windows
    from ergonet.adaptation.stages import Stage, Warmup
    from ergonet.adaptation.step_size import StepSizeLearner
    from ergonet.samplers import _settings

    target = Target.from_logdensity(lambda q: -0.5 * jnp.sum(q ** 2), jnp.zeros(2))
    run = dict(num_chains=1, num_warmup=2, num_draws=2, seed=1, progress=False)
    cases = [
        (lambda: NUTS(max_doublings=2.5), "must be an integer"),
        (lambda: NUTS(max_doublings=True), "must be an integer"),
        (lambda: NUTS(step_size="big"), "must be a finite number"),
        (lambda: NUTS(criterion=3), "`NUTS(criterion=3)` is not known"),
        (lambda: NUTS(selection=None), "`NUTS(selection=None)` is not known"),
        (lambda: ergonet.SequentialKernel(NUTS(), ergonet.SGHMC(), after=3), "`SequentialKernel(first=...)` must be a"),
        (lambda: ergonet.SequentialKernel(ergonet.SGHMC(), "sgld", after=3), "`ergonet.SGHMC()`, got 'sgld'"),
        (lambda: ergonet.XHMC("much"), "`XHMC(delta=...)` must be a finite number above 0"),
        (lambda: HMC(direction=1), "`HMC(direction=1)` is not known"),
        (lambda: HMC(num_steps="8"), "must be an integer"),
        (lambda: HMC(target_acceptance="0.8"), "between 0 and 1"),
        (lambda: _settings.require_at_least("X", "y", "z", 1.0), "at least 1.0"),
        (lambda: priors.Normal("1"), "finite number above 0"),
        (lambda: priors.Normal(1.0, "0"), "finite number"),
        (lambda: likelihoods.Gaussian(noise="0.1"), "standard deviation"),
        (lambda: likelihoods.GammaPrecision(width=True), "finite number above 0"),
        (lambda: BayesianNetwork(MLP((2, 1)), {"*": 1.0}, likelihoods.Bernoulli()), "must be a prior such as"),
        (lambda: BayesianNetwork(MLP((2, 1)), priors.Normal(), "bernoulli"), "must be a likelihood such as"),
        (lambda: BayesianNetwork(np.tanh, priors.Normal(), likelihoods.Bernoulli()), "must be an `ergonet.MLP`"),
        (lambda: MLP((2, 1.5)), "integers of at least 1"),
        (lambda: ergonet.sample(lambda q: q, **run), "`target` must be a target"),
        (lambda: ergonet.sample(target, "nuts", **run), "`kernel` must be a kernel"),
        (lambda: ergonet.sample(target, NUTS, **run), "`kernel` must be a kernel"),
        (lambda: ergonet.sample(target, **run | {"seed": 1.0}), "`seed` must be an integer"),
        (lambda: ergonet.sample(target, **run | {"num_draws": 2.0}), "`num_draws` must be an integer"),
        (lambda: ergonet.sample(target, **run | {"num_warmup": None}), "`num_warmup` must be an integer"),
        (lambda: ergonet.sample(target, devices="gpu", **run), "`devices` must be None"),
        (lambda: ergonet.sample(target, store=3, **run), "`store` must be None, a path or a store"),
        (lambda: ergonet.sample(target, time_limit="1 h", **run), "`time_limit` must be above 0"),
        (lambda: ergonet.sample(target, warmup=stan_windows, **run), "`warmup` must be a recipe such as"),
        (lambda: Stage("step", 2.5), "must be an integer of at least 1, got 2.5"),
        (lambda: Stage("step", 5, StepSizeLearner(0.8)), "`Stage(learners=...)` must be a tuple of learners"),
        (lambda: Stage("step", 5, ("step size",)), "`Stage(learners=...)` must be a tuple of learners"),
        (lambda: StepSizeLearner("0.8"), "`StepSizeLearner(target_acceptance=...)` must be between 0 and 1"),
        (lambda: StepSizeLearner(0.8, "yes"), "`StepSizeLearner(settles=...)` must be True or False, got 'yes'"),
        (lambda: Warmup((Stage("step", 5), 50)), "must be a tuple of `Stage` records"),
        (lambda: Warmup(Stage("step", 5)), "must be a tuple of `Stage` records"),
    ]
    for number, (call, complaint) in enumerate(cases):
        try:
            call()
        except ergonet._errors.ErgonetError as error:
            assert complaint in str(error), (number, complaint, str(error))
        else:
            raise AssertionError(f"case {number} was accepted: {complaint}")
    integers = {name: np.int64(value) for name, value in run.items() if name != "progress"}
    samples = ergonet.sample(target, NUTS(max_doublings=np.int64(3)), store="run", progress=False, **integers)
    assert ergonet.load("run").num_draws == samples.num_draws == 2
    ergonet.sample(target, HMC(num_steps=np.int32(3), step_size=1), **run)
"""


def test_arguments_of_the_wrong_kind_are_refused_and_numpy_integers_are_not(tmp_path):
    """In a process of its own, where no type checker is in the way."""
    program = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(WRONG_KINDS)]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kernel", [NUTS(max_doublings=4, step_size=0.3), HMC(num_steps=6, step_size=0.3)])
@pytest.mark.parametrize("integrator", [slow("leapfrog"), "two-stage", slow(Composition((0.5, 1.0, 0.5)))])
def test_a_transition_counts_its_gradients(kernel, integrator):
    kernel = type(kernel)(step_size=0.3, integrator=integrator)
    target, position = gaussian_target(), jnp.ones(5)
    state, tuning = kernel.init(target, position), kernel.tuning(target, position)
    new, info = jax.jit(lambda key: run_transition(kernel, key, target, state, tuning))(jax.random.key(2))
    cost = kernel.trajectory.integrator.gradients_per_step
    assert int(info.gradients) == int(info.num_steps) * cost > 0
    np.testing.assert_allclose(new.potential, target.potential(new.position), rtol=1e-5)
    np.testing.assert_allclose(new.gradient, jax.grad(target.potential)(new.position), rtol=1e-4, atol=1e-5)
    assert 0 <= float(info.acceptance) <= 1


def test_a_fixed_step_size_stays():
    samples = draw(NUTS(max_doublings=4, step_size=0.25))
    np.testing.assert_array_equal(samples.stats["step_size"], np.float32(0.25))
    np.testing.assert_array_equal(samples.tuning["step_size"], np.float32(0.25))
    assert samples.diagnostics()["target_acceptance"] is None  # there is no target
    assert not any(
        "mean acceptance" in sentence for sentence in diagnostics.advise({"diagnostics": samples.diagnostics()})
    )


@pytest.mark.slow
def test_trees_never_double_more_than_allowed():
    samples = draw(NUTS(max_doublings=2, step_size=0.01), num_warmup=0)
    assert np.all(samples.stats["tree_depth"] == 2)
    assert np.all(samples.stats["n_steps"] == 3)
    assert samples.diagnostics()["max_tree_depth_fraction"] == 1


def test_chains_are_placed_on_workers_and_devices():
    device = jax.devices()[0]
    single = place(1, 3)
    assert single.num_workers == 1
    assert single.groups == ((0,), (1,), (2,))
    assert single.devices == (device,) * 3
    assert not single.is_batched
    assert place(8, 3).num_workers == 3
    assert place([device], 2).devices == (device, device)
    assert 1 <= place(None, 64).num_workers <= 64


@pytest.mark.slow
@pytest.mark.slow
def test_trees_of_a_gibbs_update_tell_their_saturation():
    prior = priors.NormalGamma(parametrization="centered")
    posterior = BayesianNetwork(MLP((1, 2, 1)), prior, likelihoods.Gaussian()).condition(np.ones((3, 1)), np.zeros(3))
    kernel = GibbsHMC(NUTS(max_doublings=2, step_size=1e-3))
    samples = ergonet.sample(posterior, kernel, num_chains=2, num_warmup=0, num_draws=6, seed=0, progress=False)
    assert samples.diagnostics()["max_tree_depth_fraction"] == 1.0
    scales = samples.scales()
    assert {"noise", "layers.0.weight"} <= set(scales)
    assert all(values.shape == (2, 6) for values in scales.values())
    assert {"scale of noise"} <= {name.split("[")[0] for name in samples.summary().index}
