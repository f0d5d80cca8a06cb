"""Performance targets, and whether the measurements meet them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.rounds import WHOLE, best_peer, spread
from benchmarks.startup import ratio
from benchmarks.timing import Spread, ratios

PROBLEM_TITLES = {"digits": "P1", "regression": "P2"}
RUN_ALONE: Mapping[str, tuple[str, float]] = {"ergonet_nuts": ("NUTS", 1.8), "ergonet_hmc": ("static HMC", 3.0)}
COMPILED_TOO: Mapping[str, tuple[str, float]] = {"ergonet_default": ("default", 5.0), "ergonet_mclmc": ("MCLMC", 10.0)}
"""By sampler, its name and the least ratio of its ESS per second to that of the best peer, of runs without and with
compiling."""


@dataclass(frozen=True)
class Goal:
    """A measured figure and its bound.

    Attributes:
        what: description of the figure.
        measured: its median and range.
        bound: the bound of the median.
        at_most: whether the bound is an upper one.
        decides: whether the target is binding; False: for information only.
        allowance: amount by which the median may miss the bound because of noise.
    """

    what: str
    measured: Spread
    bound: float
    at_most: bool
    decides: bool = True
    allowance: float = 0.0

    @property
    def is_met(self) -> bool:
        """Whether the median is within the bound."""
        if self.at_most:
            return self.measured.median <= self.bound + self.allowance
        return self.measured.median >= self.bound - self.allowance

    @property
    def bound_text(self) -> str:
        """The bound in words."""
        noise = f", {self.allowance:g} allowed for noise" if self.allowance else ""
        return f"{'at most' if self.at_most else 'at least'} {self.bound:g}{noise}"


def gradient_goals(gradients: Mapping[str, Any]) -> list[Goal]:
    """Targets for ratios of steps to gradients, to no-U-turn steps and to products, and of gradients to products."""
    goals = []
    for name, record in gradients.items():
        title, times = PROBLEM_TITLES[name], record["microseconds"]
        own = times["gradient"]
        blas = ratios(own, times["products, NumPy"])
        xla = ratios(own, times["products, XLA"])
        goals += [
            Goal(f"{title}: static step / gradient", ratios(times["static step"], own), 1.05, at_most=True),
            Goal(
                f"{title}: no-U-turn step / gradient",
                ratios(times["doubling step"], own),
                1.12,
                at_most=True,
                decides=name == "digits",
            ),
            *(
                Goal(
                    f"{title}: {step} / no-U-turn step",
                    ratios(times[key], times["doubling step"]),
                    1.0,
                    at_most=True,
                    allowance=0.05,
                )
                for step, key in (("exhaustive step", "doubling step, exhaustive"), ("windowed step", "windowed step"))
            ),
            Goal(
                f"{title}: gradient with learned precisions / gradient",
                ratios(times["gradient, learned precisions"], own),
                1.1,
                at_most=True,
            ),
            Goal(f"{title}: gradient / its matrix products in OpenBLAS", blas, 1.05, at_most=True),
            Goal(f"{title}: gradient / its matrix products in XLA", xla, 1.05, at_most=True, decides=False),
        ]
    goals.append(_dense_goal(gradients["digits"]["microseconds"]))
    return goals


def _dense_goal(times: Mapping[str, list[float]]) -> Goal:
    """Target for the cost that a dense metric adds to a step, in matrix-vector products."""
    added = [step - own for step, own in zip(times["static step, dense metric"], times["gradient"], strict=True)]
    what = "P1: (static step with a dense metric - gradient) / matrix-vector product"
    return Goal(what, ratios(added, times["matrix-vector product"]), 2.0, at_most=True)


def sampler_goals(
    records: dict[str, list[dict[str, Any]]],
    longer: dict[str, list[dict[str, Any]]],
    imports: dict[str, list[float]],
) -> list[Goal]:
    """Targets for ESS per second, memory, compilation and imports against the best peer.

    Args:
        records: runs of all samplers, of as many draws.
        longer: runs of some of them within the time of the best peer.
        imports: seconds of imports.
    """
    alone = "effective_draws_per_second"
    goals = [
        *_against_best_peer(records, alone, records, RUN_ALONE, "ESS per second"),
        *_against_best_peer(records, WHOLE, records, COMPILED_TOO, "ESS per second, compiling included, as many draws"),
        *_against_best_peer(
            records, WHOLE, longer, COMPILED_TOO, "ESS per second, compiling included, within its time"
        ),
    ]
    smallest = best_peer(records, "peak_memory_mib", largest=False)
    if smallest is not None:
        own = [record["peak_memory_mib"] for record in records["ergonet_nuts"]]
        peer = [record["peak_memory_mib"] for record in records[smallest[0].module]]
        goals.append(Goal(f"NUTS: peak memory / {smallest[0].title}", ratios(own, peer), 1.0, at_most=True))
    if "numpyro_peer" in records:
        own, peer = (spread(records[module], "compile_seconds") for module in ("ergonet_nuts", "numpyro_peer"))
        both = Spread(own.median / peer.median, own.low / peer.high, own.high / peer.low)
        goals.append(Goal("NUTS: compile time / NumPyro's", both, 1.0, at_most=True))
    goals.append(Goal("`import ergonet` with its everyday names / `import jax`", ratio(imports), 1.5, at_most=True))
    return goals


def _against_best_peer(
    records: dict[str, list[dict[str, Any]]],
    name: str,
    own: dict[str, list[dict[str, Any]]],
    bounds: Mapping[str, tuple[str, float]],
    figure: str,
) -> list[Goal]:
    best = best_peer(records, name, largest=True)
    if best is None:
        return []
    peer = [record[name] for record in records[best[0].module]]
    return [
        Goal(
            f"{title}: {figure} / {best[0].title}",
            ratios([one[name] for one in own[module]], peer),
            bound,
            at_most=False,
        )
        for module, (title, bound) in bounds.items()
    ]
