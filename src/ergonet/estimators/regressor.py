"""A Bayesian neural network regressor in scikit-learn's shape."""

from typing import Any

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from ergonet._checks import is_number
from ergonet._errors import SettingError
from ergonet.estimators import assembly
from ergonet.estimators.base import SEEDS, BayesianEstimator
from ergonet.inference.samples import Samples
from ergonet.models.likelihood import Gaussian
from ergonet.prediction.predictive import sample_predictive


class BayesianRegressor(MultiOutputMixin, RegressorMixin, BayesianEstimator):
    """Regression by a Bayesian neural network.

    Parameters:
        hidden: units of each hidden layer.
        activation: tanh, relu, sigmoid, silu, gelu or softplus.
        bias: whether layers have biases.
        prior: None: N(0, 1 / fan_in) weights and N(0, 1) biases, with output weights 2 times as wide; a name such as
            `normal`; a table such as `{"name": "normal-gamma", "parametrisation": "centered"}`; a prior; or a mapping
            of leaf patterns (`layers.0.weight`, `*.bias`) to any of these.
        likelihood: None: Gaussian; a name, a table of `name` and settings, or a likelihood, in scaled units.
        noise: known noise standard deviation in the units of y, above 0; None: learned.
        kernel: None: `ergonet.NUTS()`; a name: nuts, xhmc, hmc, windowed, mala or random-walk; settings such as
            `{"name": "hmc", "num_steps": 32}`; or a kernel. For priors that learn their scales also gibbs, dynamical-a
            and dynamical-b.
        num_chains: independent chains, at least 1.
        num_warmup: transitions of each chain that tune the kernel and are not kept.
        num_draws: kept draws of each chain.
        thin: transitions for each kept draw.
        standardize: scale inputs and targets to mean 0 and sd 1 by the training rows; predictions are scaled back.
        devices: worker threads or JAX devices; None: all.
        progress: whether to show progress.
        random_state: None, an integer, or a NumPy `RandomState`.

    Attributes:
        samples_: the draws, in scaled units.
        diagnostics_: R-hat and effective sample sizes of predictions, divergences, E-BFMI.
        model_: the network with its prior and likelihood.
        n_features_in_, feature_names_in_: as everywhere in scikit-learn.
    """

    def __init__(  # scikit-learn may set a parameter to anything (`| Any`); what is wrong is said by `fit`
        self,
        *,
        hidden: Any = (50,),
        activation: str | Any = "tanh",
        bias: bool | Any = True,
        prior: Any = None,
        likelihood: Any = None,
        noise: float | Any | None = None,
        kernel: Any = None,
        num_chains: int | Any = 4,
        num_warmup: int | Any = 500,
        num_draws: int | Any = 500,
        thin: int | Any = 1,
        standardize: bool | Any = True,
        devices: Any = None,
        progress: bool | Any = False,
        random_state: Any = None,
    ):
        self.hidden = hidden
        self.activation = activation
        self.bias = bias
        self.prior = prior
        self.likelihood = likelihood
        self.noise = noise
        self.kernel = kernel
        self.num_chains = num_chains
        self.num_warmup = num_warmup
        self.num_draws = num_draws
        self.thin = thin
        self.standardize = standardize
        self.devices = devices
        self.progress = progress
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "BayesianRegressor":
        """Sample the posterior given X `[rows, features]` and y `[rows]` or `[rows, targets]`.

        Raises:
            SettingError: a parameter is out of its range.
            ValueError: the data are not finite, empty, or of different lengths.
        """
        x, target = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True, ensure_min_samples=2)
        target = np.asarray(target, np.float64)
        self._is_flat = target.ndim == 1
        target = target[:, None] if self._is_flat else target
        sd = target.std(axis=0)
        self.target_mean_ = target.mean(axis=0) if self.standardize else np.zeros(target.shape[1])
        self.target_sd_ = np.where(sd > 0, sd, 1.0) if self.standardize else np.ones(target.shape[1])
        likelihood = self._likelihood()
        scaled = ((target - self.target_mean_) / self.target_sd_).astype(np.float32)
        self._fit_network(np.asarray(x), scaled, likelihood.num_outputs(target.shape[1]), likelihood)
        return self

    def _likelihood(self) -> Any:
        if self.noise is None:
            return assembly.likelihood(self.likelihood, task="regression")
        if self.likelihood is not None:
            raise SettingError("`noise` is for the default Gaussian likelihood; give it to your `likelihood` instead.")
        if len(set(self.target_sd_.tolist())) > 1:
            raise SettingError("`noise` is one number in the units of y, but targets have different scales. Leave it.")
        if not is_number(self.noise) or not self.noise > 0:
            raise SettingError(f"`noise` must be a standard deviation above 0, got {self.noise!r}.")
        return Gaussian(noise=float(self.noise / self.target_sd_[0]))

    def _restored(self, scaled: np.ndarray | None, *, shift: bool) -> np.ndarray:
        """Scaled values `[..., rows, targets]` in the units of y, without the target axis where y had none."""
        values = np.asarray(scaled) * self.target_sd_ + (self.target_mean_ if shift else 0.0)
        return values[..., 0] if self._is_flat else values

    def predict(self, X: Any, return_std: bool = False) -> Any:  # noqa: FBT001, FBT002  scikit-learn's signature
        """Predictive mean `[rows]` or `[rows, targets]`; with `return_std` also the total standard deviation."""
        prediction = self._predict(X)
        mean = self._restored(prediction.mean, shift=True)
        return (mean, self._restored(prediction.sd, shift=False)) if return_std else mean

    def predict_interval(self, X: Any, level: float = 0.9) -> np.ndarray:
        """Central predictive interval: lower and upper end on the last axis, `[rows, 2]` or `[rows, targets, 2]`.

        Args:
            X: rows to predict.
            level: probability inside, in (0, 1).
        """
        if not 0 < level < 1:
            raise SettingError(f"`level` must lie strictly between 0 and 1, got {level!r}.")
        prediction = self._predict(X, levels=(0.5 - level / 2, 0.5 + level / 2))
        return np.stack([self._restored(q, shift=True) for q in np.asarray(prediction.quantiles)], axis=-1)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Draws of y for each row, `[rows, samples]` or `[rows, targets, samples]`."""
        seed = int(check_random_state(random_state).randint(SEEDS))
        inputs = self._inputs(X)
        draws = sample_predictive(self.samples_, inputs, num_samples=n_samples, seed=seed, model=self.model_)
        return np.moveaxis(self._restored(draws, shift=True), 0, -1)

    def _fitted_json(self) -> dict[str, Any]:
        scale = {"target_mean_": self.target_mean_.tolist(), "target_sd_": self.target_sd_.tolist()}
        return super()._fitted_json() | scale | {"is_flat": self._is_flat}

    def _restore(self, fitted: dict[str, Any], samples: Samples) -> None:
        super()._restore(fitted, samples)
        self.target_mean_, self.target_sd_ = np.array(fitted["target_mean_"]), np.array(fitted["target_sd_"])
        self._is_flat = fitted["is_flat"]
        likelihood = self._likelihood()
        outputs = likelihood.num_outputs(len(self.target_mean_))
        self.model_ = self._network(self.n_features_in_, outputs, likelihood)
