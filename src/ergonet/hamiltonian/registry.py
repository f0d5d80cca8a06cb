"""Metrics and integrators by name."""

from typing import TYPE_CHECKING

from ergonet._registry import Registry

if TYPE_CHECKING:
    from ergonet.hamiltonian.integrator import Composition
    from ergonet.hamiltonian.metric import AbstractMetric

METRICS: "Registry[AbstractMetric]" = Registry(
    "metric",
    {
        "identity": "ergonet.hamiltonian.metric:IdentityMetric",
        "diagonal": "ergonet.hamiltonian.metric:DiagonalMetric",
        "diagonal-gradient": "ergonet.hamiltonian.metric:GradientDiagonalMetric",
        "dense": "ergonet.hamiltonian.metric:DenseMetric",
    },
    of=("ergonet.hamiltonian.metric:AbstractMetric",),
)
INTEGRATORS: "Registry[Composition]" = Registry(
    "integrator",
    {
        "leapfrog": "ergonet.hamiltonian.integrator:leapfrog",
        "two-stage": "ergonet.hamiltonian.integrator:two_stage",
        "minimal-norm": "ergonet.hamiltonian.integrator:minimal_norm",
        "yoshida": "ergonet.hamiltonian.integrator:yoshida",
    },
    of=("ergonet.hamiltonian.integrator:Composition",),
)
