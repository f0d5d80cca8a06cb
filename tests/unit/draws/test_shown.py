"""How samples, networks and targets show themselves: one line, and a small table in notebooks."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from ergonet import MLP, BayesianNetwork, Samples, Target, likelihoods, priors
from tests.sampling import gaussian_target

X = np.zeros((11, 2), np.float32)


def test_samples_are_one_line_and_a_table():
    empty: dict[str, Any] = {name: {} for name in ("stats", "warmup_stats", "gradients", "tuning")}
    about = {"kernel": "<b>NUTS", "stopped_by": "Ctrl-C"}
    samples = Samples(positions=np.zeros((4, 500, 30)), seconds={"total": 12.34}, about=about, **empty)
    line = "Samples(kernel=<b>NUTS, chains=4, draws=500, coordinates=30, stopped_by=Ctrl-C, seconds=12.3)"
    assert repr(samples) == line
    table = samples._repr_html_()
    for part in ("<caption>Samples</caption>", "&lt;b&gt;NUTS", ">stopped by</th>", ">500</td>"):
        assert part in table


def test_networks_and_targets_are_one_line():
    prior = {"layers.0.*": priors.NormalGamma(), "*": priors.Normal(1.0)}
    model = BayesianNetwork(MLP((2, 3, 1)), prior, likelihoods.Gaussian())
    facts = (
        "MLP(sizes=(2, 3, 1), activation='tanh', bias=True, direct=False), prior=NormalGamma and Normal, "
        f"likelihood=Gaussian, dim={model.dim}"
    )
    assert repr(model) == f"BayesianNetwork(network={facts})"
    posterior = model.condition(X, X[:, 0])
    assert repr(posterior) == f"NetworkPosterior(network={facts}, rows=11)"
    assert ">11</td>" in posterior._repr_html_()
    assert "NormalGamma and Normal" in model._repr_html_()
    assert repr(gaussian_target()) == "LogDensity(dim=5)"
    terms = Target.from_terms(lambda q: -(q @ q), lambda q, rows: rows @ q, jnp.asarray(X), jnp.zeros(2))
    assert repr(terms) == "LogDensityTerms(dim=2, rows=11)"
