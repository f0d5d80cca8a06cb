"""Draws of the parts of a space, joined by the masses of the parts."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from ergonet._errors import EstimateError, SettingError
from ergonet._keys import derived_seed
from ergonet.diagnostics.averages import estimates
from ergonet.draws.samples import Samples
from ergonet.partition.bridge import FEWEST_DRAWS, LogMass, log_mass
from ergonet.partition.proposal import Region
from ergonet.partition.regions import Partition
from ergonet.target.contract import AbstractTarget

RESAMPLING = 0x4A6F696E  # purpose of the seed
NEGLIGIBLE = 1e-3  # a part counts so little if its weight, with 5 errors, is below


@dataclass(frozen=True)
class Joined:
    """Draws of parts of a space that do not overlap, with the masses of the parts; see `join`.

    Attributes:
        parts: draws of each part.
        masses: log mass of each part; of parts whose shares are known, the log share without an error.
        places: each part in words, such as `q[0] < 3`; empty if they are not known.
    """

    parts: tuple[Samples, ...]
    masses: tuple[LogMass, ...]
    places: tuple[str, ...] = ()

    def __str__(self) -> str:
        """A line for each part."""
        if self.is_exact:
            return "\n".join(f"{self.name(at)}: weight {weight:.4f}, exactly" for at, weight in enumerate(self.weights))
        lines = []
        for number, (mass, weight, error) in enumerate(zip(self.masses, self.weights, self.weight_errors, strict=True)):
            told = f", not trusted: {mass.problem}" if mass.problem else ""
            lines.append(
                f"{self.name(number)}: weight {weight:.4f} \N{PLUS-MINUS SIGN} {error:.4f}, log mass {mass}, "
                f"{mass.ess:.0f} effective draws, overlap {mass.overlap:.2g}{told}"
            )
        return "\n".join(lines)

    def name(self, number: int) -> str:
        """A part by its number, from 0, and its place, such as `part 0 (q[0] < 3)`."""
        return f"part {number} ({self.places[number]})" if self.places else f"part {number}"

    @property
    def is_exact(self) -> bool:
        """Whether the weights are known exactly, by a symmetry, and the masses therefore up to a common factor only."""
        return not any(one.error for one in self.masses)

    @property
    def weights(self) -> Float[np.ndarray, "part"]:
        """Share of the mass by part; NaN where a mass has no estimate, and then of the mass of all others."""
        logs = np.array([one.value for one in self.masses])
        known = np.where(np.isfinite(logs), logs, -np.inf)
        return np.exp(logs - float(logsumexp(known)))

    @property
    def weight_errors(self) -> Float[np.ndarray, "part"]:
        """Standard errors of the weights, to first order in those of the log masses."""
        weights, errors = self.weights, np.array([one.error for one in self.masses])
        known = np.isfinite(weights)
        slopes = np.diag(weights[known]) - np.outer(weights[known], weights[known])
        found = np.full(len(weights), np.nan)
        found[known] = np.sqrt(slopes**2 @ errors[known] ** 2)
        return found

    @property
    def log_mass(self) -> tuple[float, float]:
        """Log of the mass of all parts together, and its standard error.

        Raises:
            EstimateError: a part has no estimate, or only the shares of the parts are known, not their masses.
        """
        if self.is_exact:
            raise EstimateError(
                "The parts have known shares, so their masses were not estimated. Estimate that of a part, by "
                "`partition.log_mass(target, samples[0].positions, region=parts.boxes[0])`, and divide it by its share."
            )
        self._require_estimates()
        logs, errors = np.array([(one.value, one.error) for one in self.masses]).T
        return float(logsumexp(logs)), float(np.sqrt(self.weights**2 @ errors**2))

    @property
    def effective_parts(self) -> float:
        """Number of parts of equal weight that are worth as much: 1 if one part has all the mass."""
        return float(1 / np.nansum(self.weights**2))

    def _require_estimates(self) -> None:
        """Check that every part has an estimate of its mass.

        Raises:
            EstimateError: one has none.
        """
        for number, one in enumerate(self.masses):
            if not math.isfinite(one.value):
                raise EstimateError(
                    f"The mass of {self.name(number)} has no estimate, so the parts cannot be joined: {one.problem} "
                    f"Draws of the parts are in `parts`."
                )

    @property
    def faults(self) -> dict[int, str]:
        """Why the mass of a part is not to be trusted, by part; those that are surely negligible are left out."""
        largest = max((one.value for one in self.masses if not one.problem), default=-math.inf)
        found = {}
        for number, one in enumerate(self.masses):
            high = one.value + 5 * one.error if math.isfinite(one.error) else math.inf
            if one.problem and not high < largest + math.log(NEGLIGIBLE):
                found[number] = one.problem
        return found

    def trusted(self) -> "Joined":
        """The parts themselves, if their masses are to be trusted.

        Raises:
            EstimateError: they are not; names a part and says why, with the number. Its `estimate` has the parts.
        """
        for number, fault in self.faults.items():
            error = EstimateError(
                f"The mass of {self.name(number)} of {len(self.masses)} (counted from 0) cannot be told by bridge "
                f"sampling: {fault}"
            )
            error.estimate = self
            raise error
        return self

    def expectation(
        self, quantities: Callable[[Samples], Any] = Samples.monitor
    ) -> tuple[Float[np.ndarray, "quantity"], Float[np.ndarray, "quantity"]]:
        """Means of quantities over all parts, and their standard errors, with those of the weights.

        Args:
            quantities: draws `[chain, draw, quantity]` of a part, such as `lambda part: part.positions`; by default,
                what convergence is judged on: the predictions of a network, or positions.

        Raises:
            EstimateError: a part has no estimate of its mass.
        """
        self._require_estimates()
        means, errors = [], []
        for part in self.parts:
            values = np.asarray(quantities(part), np.float64)
            found = estimates()
            means.append(found.mean(values))
            with np.errstate(divide="ignore", invalid="ignore"):
                errors.append(np.nan_to_num(found.mcse_mean(values)))
        weights = self.weights[:, None]
        mean = (weights * np.stack(means)).sum(axis=0)
        of_masses = weights * (np.stack(means) - mean) * np.array([[one.error] for one in self.masses])
        return mean, np.sqrt(((weights * np.stack(errors)) ** 2 + of_masses**2).sum(axis=0))

    def samples(self) -> Samples:
        """The draws of all parts as chains of one run, with weights, which `predict` and summaries use.

        Chains of different parts never agree, so R-hat and the ESS of the result say nothing: look at those of each
        part, and at the errors of `expectation`.

        Raises:
            EstimateError: a part has no estimate of its mass.
            SettingError: the parts have different numbers of draws.
        """
        self._require_estimates()
        counts = {part.num_draws for part in self.parts}
        if len(counts) > 1:
            raise SettingError(
                f"The parts have {sorted(counts)} draws, and chains of one run must have equally many. Use "
                f"`resampled(num_draws, seed=...)`."
            )
        shares = [
            np.full((part.num_chains, part.num_draws), weight / part.num_chains)
            for part, weight in zip(self.parts, self.weights, strict=True)
        ]
        weights = np.concatenate(shares)
        stats = _together([part.stats for part in self.parts])
        stats["weight"] = (weights / weights.mean()).astype(np.float32)
        return self._run(np.concatenate([np.asarray(part.positions[...]) for part in self.parts]), stats)

    def resampled(self, num_draws: int, *, seed: int, num_chains: int = 4) -> Samples:
        """Draws of equal weight, chosen from all parts at random, in proportion to the weights.

        Every draw that is chosen is one of the parts', and none twice while its part has others. They count as ordinary
        draws everywhere, but their order is random and their number is chosen, so the ESS overstates what they are
        worth: errors are those of `expectation`.

        Args:
            num_draws: number of draws of each chain, at least 1.
            seed: seeds the choice, 0 to 2^63 - 1.
            num_chains: number of chains, at least 1.

        Raises:
            EstimateError: a part has no estimate of its mass.
            SettingError: a number is below 1.
        """
        self._require_estimates()
        if num_draws < 1 or num_chains < 1:
            raise SettingError(f"`num_draws` and `num_chains` must be at least 1, got {num_draws} and {num_chains}.")
        rng, total = np.random.default_rng(derived_seed(seed, RESAMPLING)), num_draws * num_chains
        ends = np.concatenate([[0], np.cumsum(self.weights)])
        counts = np.diff(np.floor(total * ends / ends[-1] + rng.uniform())).astype(int)  # each within 1 of its share
        chosen = []
        for part, count in zip(self.parts, counts, strict=True):
            size = part.num_chains * part.num_draws
            rows = [rng.permutation(size) for _ in range(-(-int(count) // size))]
            chosen.append(np.concatenate([np.zeros(0, int), *rows])[:count])
        order = rng.permutation(total)

        def of_parts(values: Sequence[Any]) -> np.ndarray:
            arrays = [np.asarray(one[...]) for one in values]
            flat = [one.reshape(-1, *one.shape[2:])[rows] for one, rows in zip(arrays, chosen, strict=True)]
            joined = np.concatenate(flat)[order]
            return joined.reshape(num_chains, num_draws, *joined.shape[1:])

        names = _common([part.stats for part in self.parts])
        stats = {name: of_parts([part.stats[name] for part in self.parts]) for name in names}
        return self._run(of_parts([part.positions for part in self.parts]), stats)

    def _run(self, positions: np.ndarray, stats: Mapping[str, Any]) -> Samples:
        first = self.parts[0]
        about = {
            **first.about,
            "num_chains": positions.shape[0],
            "num_draws": positions.shape[1],
            "part_weights": self.weights.tolist(),
            "part_weight_errors": self.weight_errors.tolist(),
        }
        return Samples(
            positions=positions,
            stats=stats,
            warmup_stats={},
            seconds=_sums([part.seconds for part in self.parts]),
            gradients=_sums([part.gradients for part in self.parts]),
            tuning={},
            about=about,
            target=first.target,
        )


def join(
    target: AbstractTarget,
    samples: Sequence[Samples],
    parts: Partition | Sequence[Region],
    *,
    seed: int,
    num_proposals: int | None = None,
) -> Joined:
    """Join draws of parts of a space by their masses, which are estimated by bridge sampling unless they are known.

    Args:
        target: what was sampled in every part.
        samples: draws of each part.
        parts: the partition; or where the draws of each part are, such as a `Box`, if no two overlap and together they
            hold all the mass.
        seed: seeds the proposals, 0 to 2^63 - 1.
        num_proposals: points drawn for each half of the draws of a part; None: as many as it has draws, and at least
            1000.

    Raises:
        EstimateError: the mass of a part that counts is not to be trusted; says which one and why, with the number. The
            draws of the parts remain usable, and the `estimate` of the error has them with their masses.
        SettingError: there is not one region for each part, or a part has too few draws.
    """
    regions = parts.boxes if isinstance(parts, Partition) else parts
    if not samples or len(samples) != len(regions):
        raise SettingError(f"`samples` must be one for each part, got {len(samples)} for {len(regions)} parts.")
    shares = parts.shares if isinstance(parts, Partition) else None
    if shares is not None:
        masses = tuple(_known(math.log(share), part) for share, part in zip(shares, samples, strict=True))
    else:
        _require_enough(samples)
        masses = tuple(
            _estimated(target, one, region, num_proposals=num_proposals, seed=derived_seed(seed, at))
            for at, (one, region) in enumerate(zip(samples, regions, strict=True))
        )
    places = [parts.describe(number) for number in range(len(parts))] if isinstance(parts, Partition) else []
    return Joined(tuple(samples), masses, tuple(places)).trusted()


def _require_enough(samples: Sequence[Samples]) -> None:
    for number, one in enumerate(samples):
        if one.num_draws < FEWEST_DRAWS:
            raise SettingError(
                f"Part {number} (counted from 0) has {one.num_draws} draws of each chain, and bridge sampling needs at "
                f"least {FEWEST_DRAWS}. Draw more of it."
            )


def _estimated(target: AbstractTarget, part: Samples, region: Region, **settings: Any) -> LogMass:
    """The log mass of a part; without a value if there is no proposal, because its draws do not vary."""
    try:
        return log_mass(target, part.positions[...], region=region, **settings)
    except EstimateError as error:
        return LogMass(math.nan, math.inf, 1.0, 0.0, (math.nan, math.nan), str(error))


def _known(value: float, part: Samples) -> LogMass:
    """A log mass that is known up to a constant, without error."""
    return LogMass(value, 0.0, float(part.num_chains * part.num_draws), 1.0, (value, value))


def _common(tables: Sequence[Mapping[str, Any]]) -> list[str]:
    return [name for name in tables[0] if all(name in one for one in tables)]


def _together(tables: Sequence[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    return {name: np.concatenate([np.asarray(one[name][...]) for one in tables]) for name in _common(tables)}


def _sums(tables: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {name: sum(one[name] for one in tables) for name in _common(tables)}
