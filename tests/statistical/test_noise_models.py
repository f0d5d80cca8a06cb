"""`SGHMC` with a noise model on a linear network, against its posterior in closed form."""

import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov

from ergonet import MLP, SGHMC, BayesianNetwork, likelihoods, noise_models, priors
from tests.minibatches import run
from tests.statistical.densities import z_scores

pytestmark = pytest.mark.statistical

ROWS, NOISE = 200, 0.5
DECAY = 0.1  # the momentum is remembered for 10 steps; an epoch has 2 or 20
SHARE = 0.5  # of the friction that balances the noise of the gradient


def data():
    """Uncorrelated inputs, so that the noise of different coordinates of the gradient is almost uncorrelated."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(ROWS, 3))
    x = np.linalg.qr(x - x.mean(axis=0))[0] * np.sqrt(ROWS)
    return x, x @ [1.0, -0.5, 0.3] + 0.2 + NOISE * rng.normal(size=ROWS)


def posterior(x, y):
    """Mean and precision of the weights and the bias under N(0, 1)."""
    columns = np.column_stack([x, np.ones(ROWS)])
    precision = columns.T @ columns / NOISE**2 + np.eye(4)
    return columns, np.linalg.solve(precision, columns.T @ y / NOISE**2), precision


def variance_of_gradient(columns, y, mean, precision, batch_size):
    """(N^2 / n) (1 - n / N) Var_i(g_i), averaged over the posterior."""
    covariance = np.linalg.inv(precision)
    points = mean + np.random.default_rng(0).multivariate_normal(np.zeros(4), covariance, 200)
    gradients = -(y - points @ columns.T)[..., None] * columns / NOISE**2
    spread = gradients.var(axis=1, ddof=1).mean(axis=0)
    return ROWS**2 / batch_size * (1 - batch_size / ROWS) * spread


def stationary_variance(precision, rate):
    """Of the chain with the gradients of all rows: that of the posterior, but for the size of the steps."""
    eye = np.eye(4)
    transition = np.block([[eye - rate * precision, (1 - DECAY) * eye], [-rate * precision, (1 - DECAY) * eye]])
    return np.diag(solve_discrete_lyapunov(transition, np.tile(2 * DECAY * rate * eye, (2, 2))))[:4]


@pytest.mark.parametrize("batch_size", [10, 100])
@pytest.mark.parametrize("model", ["estimated", "given"])
def test_the_noise_that_a_model_takes_away_is_in_the_gradient(model, batch_size):
    """In shuffled epochs it is not, and the variance is about 1 - SHARE of the truth."""
    x, y = data()
    columns, mean, precision = posterior(x, y)
    variance = variance_of_gradient(columns, y, mean, precision, batch_size)
    rate = 2 * DECAY * SHARE / variance.max()
    noises = {
        "estimated": noise_models.EstimatedNoise(every=10, decay=0.98),
        "given": noise_models.GivenNoise(variance),
    }
    network = BayesianNetwork(MLP((3, 1)), priors.Normal(1.0), likelihoods.Gaussian(noise=NOISE))
    target = network.condition(x.astype(np.float32), y[:, None].astype(np.float32))
    kernel = SGHMC(
        learning_rate=rate, momentum_decay=DECAY, noise=noises[model], batch_size=batch_size, steps_per_draw=10
    )
    found = run(target, kernel, num_chains=2, num_warmup=500, num_draws=5000)
    scores = z_scores(found.positions - mean, np.zeros(4), stationary_variance(precision, rate))
    assert np.max(np.abs(scores)) < 4, scores
    assert np.all(found.stats["clipped"] == 0)
    assert found.about["minibatches"] == "drawn independently"
