"""`check`: are a model's densities those of its draws, and does the kernel leave its posterior where it is?"""

import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int

from ergonet._checks import is_integer
from ergonet._errors import CapabilityError, SettingError, StartError, shown
from ergonet._notebook import Findings, in_columns
from ergonet.checking import p_values
from ergonet.checking.joint import AbstractJoint, NetworkJoint, draw_all
from ergonet.checking.replicas import SEARCH_STEPS, SHORT, Replicas
from ergonet.samplers.base import AbstractKernel
from ergonet.samplers.hmc import HMC, AbstractAroundHMC
from ergonet.samplers.stochastic.base import AbstractMinibatchKernel
from ergonet.samplers.tree import AbstractTreeKernel

FALSE_ALARM = 0.01  # of the verdict, on a right model with a right kernel
MOST_NOT_FINITE = 0.01  # of the draws of a check
REFERENCE = 40  # times as many independent draws as replicas
TESTS = 2
_BATCH = 8  # gradients at a time, for the estimate
_COMPILING = 20.0  # seconds

PerQuantity = Float[np.ndarray, "quantity"]


@dataclass(frozen=True, eq=False, repr=False)
class Check(Findings):
    """What simulation-based calibration and Geweke's joint test have found.

    Attributes:
        sizes: names of the quantities, and how many entries of each were compared; `quantity` has all of them in order.
        ranks: of a position from the prior among the places of the chain through it, from 0.
        num_places: number of places, the largest rank and 1.
        scores: z of the joint test, of the means of a quantity and of its square.
        about: kernel, replicas, transitions, step size, acceptance, and the share of draws that were not finite.
    """

    sizes: dict[str, int]
    ranks: Int[np.ndarray, "replica quantity"]
    num_places: int
    scores: Float[np.ndarray, "moment quantity"]
    about: dict[str, Any]

    @cached_property
    def calibration(self) -> PerQuantity:
        """The p-value of the ranks of each quantity (chi-squared, 16 bins)."""
        return p_values.calibration_p_values(self.ranks, self.num_places)

    @cached_property
    def joint(self) -> PerQuantity:
        """The p-value of the joint test of each quantity."""
        return p_values.joint_p_values(self.scores)

    @property
    def p_value(self) -> float:
        """Bonferroni's p-value of all quantities and both tests."""
        return p_values.smallest(np.stack([self.calibration, self.joint]))

    @property
    def passes(self) -> bool:
        """Whether that is at least 0.01, so that what is right fails at most once in a hundred seeds."""
        return self.p_value >= FALSE_ALARM

    def frame(self) -> Any:
        """A pandas table with a row for each quantity; p-values are multiplied by the number of its entries."""
        import pandas as pd

        parts = [slice(end - size, end) for end, size in zip(self._ends, self.sizes.values(), strict=True)]
        rows = {
            "entries": list(self.sizes.values()),
            "calibration": [p_values.smallest(self.calibration[one]) for one in parts],
            "joint": [p_values.smallest(self.joint[one]) for one in parts],
            "z": [float(max(self.scores[:, one].ravel(), key=abs)) for one in parts],
        }
        found = pd.DataFrame(rows, index=pd.Index(self.sizes, name="quantity"))
        bound = FALSE_ALARM * found["entries"] / (TESTS * len(self.calibration))
        return found.assign(fails=found[["calibration", "joint"]].min(axis=1) < bound)

    @property
    def _ends(self) -> np.ndarray:
        return np.cumsum(list(self.sizes.values()))

    def lines(self) -> list[str]:
        """The table as text."""
        head = ("quantity", "entries", "calibration p", "joint p", "largest z", "")
        body = [
            (str(name), str(row.entries), f"{row.calibration:.2g}", f"{row.joint:.2g}", f"{row.z:.1f}",
             "fails" if row.fails else "")
            for name, row in zip(self.sizes, self.frame().itertuples(), strict=True)
        ]  # fmt: skip
        return in_columns([head, *body])

    def sentences(self) -> list[str]:
        """The verdict, and what a failure usually means."""
        sure = f"p = {self.p_value:.2g} over {len(self.calibration)} quantities and both tests"
        lost = self.about.get("not_finite")
        told_lost = [f"{100 * lost:.2g} % of the draws were beyond floating-point numbers."] if lost else []
        if self.passes:
            rate = f"A correct model and kernel give p < {FALSE_ALARM} in one check of a hundred."
            return [f"Passes: {sure}. {rate}", *told_lost]
        found = self.frame().query("fails")
        names = list(found.sort_values("z", key=np.abs, ascending=False).index)
        told = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        return [f"Fails at {told}: {sure}.", _meaning(names), _whose_fault(self.about["kernel"]), *told_lost]


def _meaning(names: list[str]) -> str:
    """What a failure at these quantities, the clearest first, usually means."""
    plain = [name for name in names if name != "log prior" and not name.startswith("squares of ")]
    worst = plain[0] if plain else names[0]
    if worst in ("residuals", "squared residuals", "log likelihood"):
        return "Usually `sample` and `log_prob` of the likelihood differ."
    said = f"Usually the log density of {worst} is not the one that it is drawn from"
    if worst.startswith(("prior.", "likelihood.")):
        said += (
            ": the Jacobian of a transformed parameter is missing, or a scale, a variance and a precision are confused"
        )
    return f"{said}." if worst.startswith("prior.") else f"{said}; or `sample` and `log_prob` of the likelihood differ."


def _whose_fault(kernel: str) -> str:
    return (
        f"To tell the model from the kernel ({kernel}), check again with another kernel: a wrong model fails with "
        f"every one."
    )


def check(
    target: Any,
    kernel: AbstractKernel | AbstractMinibatchKernel | None = None,
    *,
    num_replicas: int = 512,
    num_steps: int = 31,
    seed: int = 0,
) -> Check:
    """Check a model and a kernel by simulation: calibration of ranks, and Geweke's joint test.

    Both tests are exact for chains of any length (`checking/replicas.py` says why), so a right model with a right
    kernel fails at most one time in a hundred (Bonferroni's bound over quantities and tests).

    Args:
        target: the posterior that `BayesianNetwork.condition` returns, whose targets are replaced by simulated ones; or
            an `AbstractJoint` of your own.
        kernel: a kernel with a Metropolis correction whose transition is reversible, as all of the library's are; None:
            `HMC(num_steps=8, metric="identity")`. Without a step size of its own, it gets one with an acceptance of
            about 0.7; a metric that would be learned is the identity, and a length that would be, 8 steps. Trees take
            as long as the longest of all replicas: give `NUTS(max_doublings=4)`.
        num_replicas: number of chains of each test, at least 128.
        num_steps: transitions of each; 1 less than a multiple of 16.
        seed: 0 to 2^63 - 1.

    Raises:
        CapabilityError: the target cannot be simulated, or the kernel cannot be checked or does not take the target.
        SettingError: a number is out of range.
        StartError: draws from the prior have no finite density.
    """
    chains = _replicas(target, kernel, num_replicas, num_steps, seed)
    step_size = chains.step_size()
    values, acceptance = chains.ranked(step_size)
    drawn = (values, chains.jointly(step_size), chains.reference(REFERENCE))
    lost = max(_share_not_finite(one, chains.sizes) for one in drawn)
    values, jointly, reference = map(_finite, drawn)
    scores = p_values.joint_scores(jointly, reference)
    about = {
        "kernel": type(chains.kernel).__name__,
        "replicas": num_replicas,
        "transitions": num_steps,
        "step_size": step_size,
        "acceptance": acceptance,
        "not_finite": lost,
    }
    ranks = p_values.ranks_of(values, np.random.default_rng(seed))
    return Check(chains.sizes, ranks, num_steps + 1, scores, about)


def estimate(
    target: Any,
    kernel: AbstractKernel | AbstractMinibatchKernel | None = None,
    *,
    num_replicas: int = 512,
    num_steps: int = 31,
) -> float:
    """About how many seconds `check` takes with the same arguments, from the time of some gradients.

    Raises:
        CapabilityError: as `check`.
        SettingError: as `check`.
    """
    chains = _replicas(target, kernel, num_replicas, num_steps, 0)
    joint, kernel = chains.joint, chains.kernel

    def gradient(key: Any) -> Any:
        position = joint.draw(key)
        data = joint.simulate(key, position)
        return jax.grad(lambda where: joint.given(data).potential(where))(position)

    program = jax.jit(jax.vmap(gradient))
    keys = jax.random.split(jax.random.key(0), _BATCH)
    jax.block_until_ready(program(keys))
    seconds = min(_timed(program, keys) for _ in range(3)) / _BATCH
    transitions = num_replicas * (2 * num_steps + SEARCH_STEPS)
    return _COMPILING + seconds * transitions * (2 + _steps(kernel))


def _timed(program: Any, keys: Any) -> float:
    began = time.perf_counter()
    jax.block_until_ready(program(keys))
    return time.perf_counter() - began


def _steps(kernel: Any) -> int:
    """Gradients of a transition, as far as the settings say."""
    if isinstance(kernel, AbstractTreeKernel):
        return 2**kernel.max_doublings - 1
    if isinstance(kernel, AbstractAroundHMC):
        return _steps(kernel.static)
    own = getattr(kernel, "update", None)
    if isinstance(own, AbstractKernel):
        return _steps(own)
    return int(getattr(kernel, "num_steps", 1) or SHORT)


def _replicas(target: Any, kernel: Any, num_replicas: int, num_steps: int, seed: int) -> Replicas:
    """The chains, after all that can be checked before them."""
    kernel = HMC(num_steps=SHORT, metric="identity") if kernel is None else kernel
    if not is_integer(num_replicas) or num_replicas < 128:
        raise SettingError(f"`num_replicas` must be an integer of at least 128, got {shown(num_replicas)}.")
    if not is_integer(num_steps) or num_steps < 1 or (num_steps + 1) % p_values.NUM_BINS:
        raise SettingError(
            f"`num_steps` must be 1 less than a multiple of {p_values.NUM_BINS}, such as 31, got {shown(num_steps)}."
        )
    if not is_integer(seed) or not 0 <= seed < 2**63:
        raise SettingError(f"`seed` must be an integer from 0 to 2^63 - 1, got {shown(seed)}.")
    if not isinstance(kernel, AbstractKernel) or not kernel.is_corrected:
        raise CapabilityError(
            f"`check` needs a kernel that leaves the posterior invariant; {type(kernel).__name__} does so only up to "
            f"the error of its steps. Check the model with `HMC()` or `NUTS(max_doublings=4)`."
        )
    if type(kernel).start_near is not AbstractKernel.start_near:
        raise CapabilityError(
            f"`check` cannot check {type(kernel).__name__}, which leaves out a part of the posterior. Check its "
            f"`update`."
        )
    joint = target if isinstance(target, AbstractJoint) else NetworkJoint.of(target)
    jax.eval_shape(lambda: _first_state(joint, kernel))
    return Replicas(joint, kernel, int(num_replicas), int(num_steps), int(seed))


def _first_state(joint: AbstractJoint, kernel: AbstractKernel) -> Any:
    position, data = draw_all(joint, jax.random.key(0))
    return kernel.init(joint.given(data), position)


def _share_not_finite(drawn: np.ndarray, sizes: dict[str, int]) -> float:
    """The share of draws, quantities `[..., quantity]`, with one that is not finite.

    A vague prior has draws beyond floating-point numbers now and then. There the kernel rejects everything, which
    leaves every distribution as it is; a model that often has them cannot be checked.
    """
    bad = ~np.isfinite(drawn.reshape(-1, drawn.shape[-1]))
    share = float(bad.any(axis=1).mean())
    if share > MOST_NOT_FINITE:
        name = np.repeat(list(sizes), list(sizes.values()))[np.argmax(bad.any(axis=0))]
        raise StartError(
            f"In {100 * share:.0f} % of the draws from the prior, {name} is not finite: it is beyond the range of "
            f"floating-point numbers. Use a narrower prior, such as a larger `alpha` of its scales."
        )
    return share


def _finite(drawn: np.ndarray) -> np.ndarray:
    """Quantities with those that are not finite as the largest numbers of single precision."""
    most = float(np.finfo(np.float32).max)
    return np.nan_to_num(np.asarray(drawn, np.float64), nan=-most, posinf=most, neginf=-most)
