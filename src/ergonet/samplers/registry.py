"""Kernels by name, and the noise models and schedules of minibatch kernels by name."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ergonet._registry import Entry, Registry
from ergonet.trajectory.registry import CRITERIA, SELECTIONS

if TYPE_CHECKING:
    from ergonet.samplers.base import AbstractKernel
    from ergonet.samplers.stochastic.base import AbstractMinibatchKernel
    from ergonet.samplers.stochastic.noise_model import AbstractNoiseModel
    from ergonet.samplers.stochastic.schedule import AbstractSchedule

SCHEDULES: "Registry[AbstractSchedule]" = Registry(
    "schedule",
    {
        "constant": "ergonet.samplers.stochastic.schedule:Constant",
        "polynomial": "ergonet.samplers.stochastic.schedule:Polynomial",
        "cyclical": "ergonet.samplers.stochastic.schedule:Cyclical",
    },
    of=("ergonet.samplers.stochastic.schedule:AbstractSchedule",),
)
NOISE_MODELS: "Registry[AbstractNoiseModel]" = Registry(
    "noise",
    {
        "none": "ergonet.samplers.stochastic.noise_model:NoNoise",
        "given": "ergonet.samplers.stochastic.noise_model:GivenNoise",
        "estimated": "ergonet.samplers.stochastic.noise_model:EstimatedNoise",
    },
    of=("ergonet.samplers.stochastic.noise_model:AbstractNoiseModel",),
)


def _parts() -> Mapping[str, Registry[Any]]:
    return {
        "criterion": CRITERIA,
        "selection": SELECTIONS,
        "schedule": SCHEDULES,
        "noise": NOISE_MODELS,
        "update": KERNELS,
    }


KERNELS: "Registry[AbstractKernel | AbstractMinibatchKernel]" = Registry(
    "kernel",
    {
        "nuts": "ergonet.samplers.nuts:NUTS",
        "xhmc": "ergonet.samplers.xhmc:XHMC",
        "hmc": "ergonet.samplers.hmc:HMC",
        "mams": "ergonet.samplers.mams:MAMS",
        "mclmc": "ergonet.samplers.mclmc:MCLMC",
        "delayed-rejection": "ergonet.samplers.delayed_rejection_hmc:DelayedRejectionHMC",
        "windowed": "ergonet.samplers.windowed_hmc:WindowedHMC",
        "constrained": "ergonet.samplers.constrained:ConstrainedHMC",
        "mala": "ergonet.samplers.mala:MALA",
        "random-walk": "ergonet.samplers.random_walk:RandomWalk",
        "gibbs": Entry("ergonet.samplers.gibbs_hmc:GibbsHMC", tags=("hyperparameters",)),
        "dynamical-a": Entry("ergonet.samplers.dynamical:DynamicalA", tags=("hyperparameters",)),
        "dynamical-b": Entry("ergonet.samplers.dynamical:DynamicalB", tags=("hyperparameters",)),
        "sgld": Entry("ergonet.samplers.stochastic.sgld:SGLD", tags=("minibatch",)),
        "sghmc": Entry("ergonet.samplers.stochastic.sghmc:SGHMC", tags=("minibatch",)),
        "naive-sghmc": Entry("ergonet.samplers.stochastic.naive_sghmc:NaiveSGHMC", tags=("minibatch",)),
        "sg-nuts": Entry("ergonet.samplers.stochastic.sg_nuts:SGNUTS", tags=("minibatch",)),
    },
    of=("ergonet.samplers.base:AbstractKernel", "ergonet.samplers.stochastic.base:AbstractMinibatchKernel"),
    parts=_parts,
)
"""Tags: ``minibatch``, kernels with minibatch gradients; ``hyperparameters``, kernels for hierarchical priors."""
