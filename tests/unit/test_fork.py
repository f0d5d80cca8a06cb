"""A process that was forked after JAX had started gets an error instead of waiting forever."""

import multiprocessing
import subprocess
import sys
import warnings

import jax
import numpy as np
import pytest

import ergonet
from ergonet import MLP, BayesianNetwork, BayesianRegressor, likelihoods, priors
from ergonet._errors import ErgonetError
from ergonet._fork import require_jax

MODEL = BayesianNetwork(MLP((2, 3, 1)), priors.Normal(1.0), likelihoods.Gaussian(1.0))
X, Y = np.random.default_rng(0).normal(size=(2, 10, 2))
PATIENCE = 120  # seconds for what takes milliseconds
GRID = """
import warnings
import numpy as np
from joblib import parallel_config
from sklearn.model_selection import GridSearchCV
from ergonet import BayesianRegressor

warnings.simplefilter("ignore")
x = np.random.default_rng(0).normal(size=(24, 2))
short = BayesianRegressor(hidden=(2,), kernel="hmc", num_chains=1, num_warmup=10, num_draws=10, random_state=0)

def search(backend):
    with parallel_config(backend, n_jobs=2):
        grid = GridSearchCV(short, {"prior": ["normal"]}, cv=2, error_score="raise", refit=False)
        return grid.fit(x, x[:, 0]).cv_results_["mean_test_score"]

scores = [search(backend) for backend in ("multiprocessing", "loky", "threading")]
assert all(np.array_equal(one, scores[0]) for one in scores), scores
try:
    search("multiprocessing")
except Exception as error:
    print(type(error).__name__, error)
"""


def uses():
    """Ways to JAX from the public interface."""
    target = MODEL.condition(X, Y[:, :1])
    draws = np.zeros((1, 4, target.dim), np.float32)
    samples = ergonet.Samples(draws, {}, {}, {}, {}, {}, {}, target=target)
    return {
        "condition": lambda: MODEL.condition(X, Y[:, :1]),
        "sample": lambda: ergonet.sample(target, num_draws=1, num_warmup=0, seed=0),
        "predict": lambda: ergonet.predict(samples, X),
        "prior predictive": lambda: ergonet.prior_predictive(MODEL, X, seed=0),
        "parameters": samples.parameters,
        "log likelihood": samples.log_likelihood,
        "fit": lambda: BayesianRegressor(num_draws=2).fit(X, Y[:, 0]),
    }


def outcome(pipe, use):
    try:
        use()
        pipe.send("done")
    except ErgonetError as error:
        pipe.send(f"{type(error).__name__}: {error}")


def in_a_fork(use):
    """What a use ends with in a forked process."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=outcome, args=(there, use))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX and Python warn of forks
        process.start()
    found = here.recv() if here.poll(PATIENCE) else "hangs"
    process.kill()
    process.join()
    return found


@pytest.mark.parametrize("use", ["condition", "sample", "predict", "prior predictive", "parameters", "log likelihood"])
def test_a_fork_after_jax_has_started_is_refused(use):
    jax.devices()
    found = in_a_fork(uses()[use])
    assert found.startswith("ForkError: Process ")
    assert "`joblib.parallel_config('loky')`" in found
    require_jax()  # this process can use it as before


def test_a_fit_in_a_fork_is_refused():
    jax.devices()
    assert in_a_fork(uses()["fit"]).startswith("ForkError: ")


@pytest.mark.slow
def test_searches_work_with_every_backend_unless_they_fork_after_a_fit():
    found = subprocess.run([sys.executable, "-c", GRID], capture_output=True, text=True, timeout=600, check=False)
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith("ForkError Process "), found.stdout + found.stderr
