"""The result of a run: draws, statistics, and the way to names, ArviZ and disk."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ergonet._errors import CapabilityError, RunDirectoryError
from ergonet.diagnostics.chains import ess_bulk, stuck_chains
from ergonet.diagnostics.energy import e_bfmi, has_momentum
from ergonet.diagnostics.function_space import ConvergenceSummary, summarise
from ergonet.diagnostics.performance import mean_per_draw, saturated_share
from ergonet.inference.chains import Draws, quantities
from ergonet.inference.store import POSITIONS, ZarrStore, read_store
from ergonet.models.target import HierarchicalTarget, Target, flatten_names

BATCH_BYTES = 64 * 2**20
MOST_WEIGHTS = 10_000  # whose effective sample size is told: half a millisecond each
STATISTICS = (
    "lp",
    "energy",
    "energy_error",
    "max_energy_error",
    "acceptance_rate",
    "step_size",
    "n_steps",
    "gradients",
    "tree_depth",
    "diverging",
    "nonfinite",
    "moved",
)


def statistics_of(draws: Draws, count: int) -> dict[str, np.ndarray]:
    """The first `count` rows of a chunk's statistics under ArviZ's names."""
    info = draws.info
    named = (
        -np.asarray(draws.potential),
        info.energy,
        info.energy_error,
        info.max_energy_error,
        info.acceptance,
        draws.step_size,
        info.num_steps,
        info.gradients,
        info.tree_depth,
        info.diverging,
        info.nonfinite,
        info.moved,
    )
    return {name: np.asarray(values)[..., :count] for name, values in zip(STATISTICS, named, strict=True)}


@dataclass(frozen=True)
class Samples:
    """Draws of a run.

    Attributes:
        positions: `[chain, draw, dim]`, a NumPy array or a lazy Zarr array.
        stats: `[chain, draw]` by name: lp, energy, energy_error, max_energy_error, acceptance_rate, step_size, n_steps,
            gradients, tree_depth (-1: no tree), diverging, nonfinite, moved; of a minibatch kernel those of
            `MinibatchResult`.
        warmup_stats: the same for the warm-up.
        seconds: `setup`, `compile`, `warmup`, `sampling`, `total`; wall-clock.
        gradients: `warmup`, `sampling`: potential gradients of all chains.
        tuning: `step_size` `[chain]`, `num_steps` `[chain]`, `inverse_mass_matrix` `[chain, dim(, dim)]`, and
            `refused_metrics` `[chain]`: how often the warm-up kept the metric that it had because a number of the one
            it had learned was not finite.
        about: kernel, seed, counts and versions, JSON types only; `target_acceptance` is None where the warm-up tuned
            no step size.
        target: what was sampled; None for draws that were loaded without it.
    """

    positions: Any
    stats: Mapping[str, np.ndarray]
    warmup_stats: Mapping[str, np.ndarray]
    seconds: Mapping[str, float]
    gradients: Mapping[str, int]
    tuning: Mapping[str, np.ndarray]
    about: Mapping[str, Any]
    target: Target | None = field(default=None, repr=False)

    @property
    def num_chains(self) -> int:
        """Chains."""
        return self.positions.shape[0]

    @property
    def num_draws(self) -> int:
        """Kept draws of each chain."""
        return self.positions.shape[1]

    def _require_target(self) -> Target:
        if self.target is None:
            raise CapabilityError(
                "These samples were loaded without their target, so positions have no names. "
                "Give it: `ergonet.load(path, target=target)`."
            )
        return self.target

    def parameters(self) -> dict[str, np.ndarray]:
        """Named arrays `[chain, draw, ...]`."""
        target = self._require_target()
        unravel = jax.jit(jax.vmap(lambda position: flatten_names(target.unravel(position))))
        parts = [[unravel(jnp.asarray(block)) for block in self._blocks(chain)] for chain in range(self.num_chains)]
        names = parts[0][0].keys()
        return {
            name: np.stack([np.concatenate([np.asarray(block[name]) for block in chain]) for chain in parts])
            for name in names
        }

    def monitor(self) -> np.ndarray:
        """What convergence is judged by, `[chain, draw, quantity]`.

        Predictions on reference rows where the target is a network, else the positions themselves.
        """
        if self.target is None or not self.target.offers("monitor"):
            return np.asarray(self.positions)
        target = self.target
        return np.stack(
            [
                np.concatenate([np.asarray(_monitor(target, jnp.asarray(block))) for block in self._blocks(chain)])
                for chain in range(self.num_chains)
            ]
        )

    def scales(self) -> dict[str, np.ndarray]:
        """Learned standard deviations of weights and noise by name, `[chain, draw]`.

        Those of several groups are one figure, their root mean square. Where every input of a network has one, these
        are there too: `input relevance`, `[chain, draw, input]`. Empty where the target learns none.
        """
        target = self.target
        if not isinstance(target, HierarchicalTarget):
            return {}
        chains = [[_scales(target, jnp.asarray(block)) for block in self._blocks(c)] for c in range(self.num_chains)]
        names = chains[0][0]
        return {name: np.stack([np.concatenate([one[name] for one in blocks]) for blocks in chains]) for name in names}

    def _blocks(self, chain: int):
        rows = max(1, BATCH_BYTES // (4 * self.positions.shape[2]))
        for start in range(0, self.num_draws, rows):
            yield np.asarray(self.positions[chain, start : start + rows])

    def convergence(self) -> ConvergenceSummary:
        """R-hat and effective sample sizes of the monitored quantities."""
        return summarise(self.monitor())

    def diagnostics(self) -> dict[str, Any]:
        """The figures that say whether to trust the run, as in `metrics.json`."""
        function, weights = self.convergence(), self._weights_ess()
        found = {
            "nonfinite": int(self.stats["nonfinite"].sum()),
            "stuck_chains": [int(chain) for chain in stuck_chains(self.positions)],
            "max_rhat_function": function.max_rhat,
            "min_ess_bulk_function": function.min_ess_bulk,
            "median_ess_bulk_function": function.median_ess_bulk,
            "min_ess_tail_function": function.min_ess_tail,
            "min_ess_bulk_weights": float(weights.min()) if weights.size else math.nan,
            "median_ess_bulk_weights": float(np.median(weights)) if weights.size else math.nan,
            "mean_gradients_per_draw": float(np.mean(mean_per_draw(self.stats["gradients"]))),
        }
        learned = [values.reshape(*values.shape[:2], -1) for values in self.scales().values()]
        if learned:
            scales = summarise(np.concatenate(learned, axis=2))
            found |= {"max_rhat_scales": scales.max_rhat, "min_ess_bulk_scales": scales.min_ess_bulk}
        return found | (minibatch_diagnostics(self.stats) if self.is_of_minibatches else self._of_trajectories())

    def _weights_ess(self) -> np.ndarray:
        """Bulk effective sample sizes of the coordinates, those that cannot be told left out.

        Of more than 10 000 coordinates every so many are judged.
        """
        stride = -(-self.positions.shape[2] // MOST_WEIGHTS)
        found = ess_bulk(self.positions if stride == 1 else np.asarray(self.positions[...])[:, :, ::stride])
        return found[~np.isnan(found)]

    @property
    def is_of_minibatches(self) -> bool:
        """Whether a minibatch kernel drew them: no energies, and gradients of some rows each."""
        return "kinetic_temperature" in self.stats

    def _of_trajectories(self) -> dict[str, Any]:
        limit, depth = self.about.get("max_doublings"), self.stats["tree_depth"]
        energy = {"min_ebfmi": float(np.min(e_bfmi(self.stats["energy"])))} if has_momentum(self.stats) else {}
        return energy | {
            "divergences": int(self.stats["diverging"].sum()),
            "warmup_divergences": int(self.warmup_stats["diverging"].sum()) if self.warmup_stats else 0,
            "max_tree_depth_fraction": float(np.mean(saturated_share(depth, limit))) if limit else 0.0,
            "mean_acceptance": float(self.stats["acceptance_rate"].mean()),
            "target_acceptance": self.about.get("target_acceptance"),
            "refused_metrics": int(self._refused_metrics().sum()),
            "mean_steps_per_draw": float(np.mean(mean_per_draw(self.stats["n_steps"]))),
        }

    def _refused_metrics(self) -> np.ndarray:
        return np.asarray(self.tuning.get("refused_metrics", 0))  # runs stored by older versions have no count

    def alarms(self) -> list[str]:
        """Sentences about what no run should have.

        Divergences, energies and metrics that are not finite, chains that never moved.
        """
        if self.is_of_minibatches:
            return []  # said by the run itself, which sees every draw and not only those that are stored
        total = self.num_chains * self.num_draws
        divergences, nonfinite = int(self.stats["diverging"].sum()), int(self.stats["nonfinite"].sum())
        stuck = [chain for chain in range(self.num_chains) if not self.stats["moved"][chain].any()]
        aim, found = self.about.get("target_acceptance"), []
        if divergences:
            found.append(
                f"{divergences} of {total} draws end a divergent trajectory ({nonfinite} of them with an energy that "
                f"is not finite): the draws may miss a part of the posterior. "
                + ("Use a smaller `step_size`." if aim is None else "Raise `target_acceptance`, e.g. to 0.95.")
            )
        if stuck:
            found.append(
                f"Chains {stuck} never moved in {self.num_draws} draws. Give more warm-up, a smaller step size, or "
                f"another start."
            )
        if self._refused_metrics().any():
            found.append(
                f"In the warm-up of chains {np.flatnonzero(self._refused_metrics()).tolist()} a learned metric was not "
                f"finite, and the one before stayed. Standardise inputs and targets, or use float64."
            )
        return found

    def to_datatree(self) -> Any:
        """An ArviZ `DataTree` with posterior, sample_stats and warmup_sample_stats."""
        from arviz_base import from_dict

        groups = {"posterior": self.parameters(), "sample_stats": self._arviz_stats(self.stats)}
        if self.warmup_stats:
            groups["warmup_sample_stats"] = self._arviz_stats(self.warmup_stats)
        return from_dict(groups, save_warmup=True)

    def _arviz_stats(self, stats: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Statistics with what ArviZ asks of trees; the other names are ArviZ's already."""
        limit = self.about.get("max_doublings")
        return dict(stats) | ({"reached_max_treedepth": stats["tree_depth"] >= limit} if limit else {})

    def summary(self) -> Any:
        """A table (pandas) by monitored quantity: mean, sd, 5 % and 95 % quantiles, MCSE, bulk and tail ESS, R-hat."""
        import pandas as pd

        from ergonet.diagnostics.chains import mcse_mean

        named = self._named_quantities()
        values = np.concatenate([v.reshape(*v.shape[:2], -1) for v in named.values()], axis=2)
        index = [f"{name}{_subscript(v.shape[2:], i)}" for name, v in named.items() for i in np.ndindex(v.shape[2:])]
        convergence = summarise(values)
        return pd.DataFrame(
            {
                "mean": values.mean(axis=(0, 1)),
                "sd": values.std(axis=(0, 1)),
                "q5": np.quantile(values, 0.05, axis=(0, 1)),
                "q95": np.quantile(values, 0.95, axis=(0, 1)),
                "mcse_mean": mcse_mean(values),
                "ess_bulk": convergence.ess_bulk,
                "ess_tail": convergence.ess_tail,
                "r_hat": convergence.rhat,
            },
            index=index,
        )

    def _named_quantities(self) -> dict[str, np.ndarray]:
        if self.target is not None and self.target.offers("monitor"):
            return {"prediction": self.monitor()} | {f"scale of {name}": v for name, v in self.scales().items()}
        return self.parameters() if self.target is not None else {"x": np.asarray(self.positions)}

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write positions, statistics and tuning as a Zarr group with a manifest; no pickle.

        Raises:
            RunDirectoryError: the folder exists and `overwrite` is not set.
        """
        store = ZarrStore(path, overwrite=overwrite)
        # Read first what may lie in the folder that is replaced.
        positions = self.positions[...] if overwrite else self.positions
        arrays: dict[str, Any] = {POSITIONS: positions, **self.stats}
        fields = {name: (tuple(a.shape[2:]), np.dtype(a.dtype)) for name, a in arrays.items()}
        store.allocate(self.num_chains, self.num_draws, fields)
        for chain in range(self.num_chains):
            store.write(chain, 0, {name: np.asarray(a[chain]) for name, a in arrays.items()})
        self.finish_store(store)
        return Path(path)

    def finish_store(self, store: ZarrStore) -> None:
        """Write what is not drawn one by one, then the final manifest."""
        store.write_extra("warmup", self.warmup_stats)
        store.write_extra("tuning", self.tuning)
        store.finish(
            {
                "draws": self.num_draws,
                "seconds": dict(self.seconds),
                "gradients": dict(self.gradients),
                "about": dict(self.about),
            }
        )


@eqx.filter_jit
def _monitor(target: Target, positions: Any) -> Any:
    return jax.lax.map(lambda position: quantities(target, position), positions, batch_size=64)


@eqx.filter_jit
def _scales(target: HierarchicalTarget, positions: Any) -> dict[str, Any]:
    return jax.vmap(target.scales)(positions)


def _subscript(shape: tuple[int, ...], index: tuple[int, ...]) -> str:
    return f"[{', '.join(str(i) for i in index)}]" if shape else ""


def minibatch_diagnostics(stats: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """What the statistics of a minibatch kernel say about trust."""
    temperature, clipped = stats["kinetic_temperature"], stats["clipped"]
    tested = "acceptance_rate" in stats and np.isfinite(stats["acceptance_rate"]).any()
    return {
        "mean_kinetic_temperature": float(np.nanmean(temperature)) if np.isfinite(temperature).any() else None,
        "clipped_fraction": float(np.mean(clipped)) if clipped.size else 0.0,
        "minibatch_acceptance": float(np.nanmean(stats["acceptance_rate"])) if tested else None,
    }


def told(stats: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Statistics without an acceptance rate where nothing was tested."""
    return {name: values for name, values in stats.items() if name != "acceptance_rate" or not np.isnan(values).all()}


def load(path: str | os.PathLike[str], *, target: Target | None = None) -> Samples:
    """Samples of a stored run, with positions read lazily; only what its manifest counts.

    Args:
        path: a folder that `Samples.save` or a run with `store=path` has written.
        target: gives positions their names back; draws and statistics can be read without.

    Raises:
        RunDirectoryError: not a stored run, or one without a complete draw.
    """
    group, manifest = read_store(path)
    draws = manifest.get("draws", min(manifest["draws_by_chain"]))
    if draws == 0:
        raise RunDirectoryError(f"`{path}` holds no draw that all chains have finished: the run ended in its warm-up.")
    positions = group[POSITIONS]
    if target is not None and positions.shape[2] != target.dim:
        raise RunDirectoryError(f"`{path}` has positions of dim {positions.shape[2]}, `target` has {target.dim}.")
    return Samples(
        positions=positions if positions.shape[1] == draws else np.asarray(positions[:, :draws]),
        stats=told(
            {name: np.asarray(group[name][:, :draws]) for name in sorted(group.array_keys()) if name != POSITIONS}
        ),
        warmup_stats=_extra(group, "warmup"),
        seconds=manifest.get("seconds", {}),
        gradients=manifest.get("gradients", {}),
        tuning=_extra(group, "tuning"),
        about=manifest.get("about", {}),
        target=target,
    )


def _extra(group: Any, name: str) -> dict[str, np.ndarray]:
    return {key: np.asarray(value[...]) for key, value in group[name].arrays()} if name in group else {}
