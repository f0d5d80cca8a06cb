"""Small targets and settings that several tests of the sampling core share."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

import ergonet
from ergonet import Target
from ergonet.inference.devices import Placement
from ergonet.samplers.base import AbstractKernel
from ergonet.samplers.registry import KERNELS
from ergonet.target.padding import padded_index

SCALES = np.array([0.5, 1.0, 2.0, 1.5, 0.8], np.float32)


class Gaussian(eqx.Module):
    """Independent normals; data are leaves, so that other scales compile nothing."""

    mean: Any
    scale: Any

    def __call__(self, q):
        return -0.5 * jnp.sum(((q - self.mean) / self.scale) ** 2)


def trajectory_kernel(name: str, settings: dict[str, Any] | None = None) -> AbstractKernel:
    """A kernel of all rows by name."""
    made = KERNELS.make(name, settings)
    assert isinstance(made, AbstractKernel)
    return made


def gaussian_target(scale: Any = SCALES, mean=0.0):
    scale = jnp.asarray(scale, jnp.float32)
    return Target.from_logdensity(Gaussian(jnp.full_like(scale, mean), scale), jnp.zeros_like(scale))


def draw(kernel=None, **settings):
    """A short silent run on the Gaussian; the same programs serve all of them."""
    chosen = {"target": gaussian_target(), "num_chains": 2, "num_warmup": 40, "num_draws": 30, "seed": 5}
    chosen |= {"progress": False} | settings
    target = chosen.pop("target")
    return ergonet.sample(target, kernel or ergonet.NUTS(max_doublings=5), **chosen)


def with_targets(posterior, targets):
    """The posterior given other targets, `[targets, rows]`, of the same inputs."""
    padded = targets[:, padded_index(targets.shape[1])]
    return eqx.tree_at(lambda one: one.padded_targets, posterior, padded)


def place_in_one_batch(monkeypatch):
    """Make runs take the path of accelerators, where the chains of a device share one program."""
    import jax

    from ergonet.inference import run

    def place(devices, num_chains):
        return Placement(num_workers=1, groups=(tuple(range(num_chains)),), devices=(jax.devices()[0],))

    monkeypatch.setattr(run, "place", place)
