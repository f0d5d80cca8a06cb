"""Pictures and tables of the report that show whether the draws can be trusted."""

from typing import Any

import numpy as np

from ergonet import plots
from ergonet.diagnostics import e_bfmi
from ergonet.diagnostics.advice import thin_of
from ergonet.diagnostics.energy import has_momentum
from ergonet.report import ensemble, function_space, wording
from ergonet.report.pictures import Picture, draw
from ergonet.report.record import RunRecord


def pictures(record: RunRecord) -> list[Picture]:
    """Convergence, ranks, trace, energies and transitions, as far as the run recorded them."""
    made = []
    found = function_space.Monitored.of(record)
    if found is not None:
        made.extend(function_space.pictures(found))
        worst = found.summary.worst(1)
        drawn, name = (found.values[:, :, one] for one in worst), "ranks-function"
        made.extend(_ranks(values, found.weights, name, "the worst-mixing prediction") for values in drawn)
    stats, early = record.stats, record.warmup_stats
    if _has_draws(stats.get("lp")):
        made.append(_trace(stats["lp"], early.get("lp")))
        made.append(_ranks(stats["lp"], stats.get("weight"), "ranks-lp", "the log posterior"))
    if _has_energies(record):
        made.append(_energies(stats["energy"]))
    if _has_draws(stats.get("acceptance_rate")):
        made.append(_transitions(record))
    return made


def by_chain(record: RunRecord) -> dict[str, Any] | None:
    """Tabulate the chains, one row each; None if nothing was recorded."""
    stats = record.stats
    columns: list[tuple[str, list[str]]] = []
    if _has_draws(stats.get("acceptance_rate")):
        columns.append(("mean acceptance", [f"{np.mean(chain):.2f}" for chain in stats["acceptance_rate"]]))
    if _has_draws(stats.get("step_size")):
        columns.append(("step size", [wording.number(float(chain[-1])) for chain in stats["step_size"]]))
    if _has_draws(stats.get("n_steps")):
        columns.append(("steps per draw", [wording.number(float(np.mean(chain))) for chain in stats["n_steps"]]))
    if _has_draws(stats.get("diverging")):
        name = "divergences" if thin_of(record.metrics) == 1 else "draws with divergences"
        columns.append((name, [str(int(np.sum(chain))) for chain in stats["diverging"]]))
    if _has_energies(record):
        columns.append(("E-BFMI", [wording.number(float(value), 2) for value in e_bfmi(stats["energy"])]))
    columns.extend(ensemble.columns(record.metrics, int(record.metrics.get("num_chains") or 0)))
    if not columns:
        return None
    count = len(columns[0][1])
    return {
        "names": ["chain", *(name for name, _ in columns)],
        "rows": [[str(chain), *(values[chain] for _, values in columns)] for chain in range(count)],
    }


def _has_draws(values: np.ndarray | None) -> bool:
    return values is not None and values.ndim == 2 and values.size > 0


def _has_energies(record: RunRecord) -> bool:
    """Whether there are energies of all transitions, which E-BFMI needs."""
    is_thinned = thin_of(record.metrics) > 1
    return not is_thinned and _has_draws(record.stats.get("energy")) and has_momentum(record.stats)


def _ranks(values: np.ndarray, weights: np.ndarray | None, name: str, what: str) -> Picture:
    count = len(values) if weights is None else int(weights.any(axis=1).sum())
    return Picture(
        title=f"Does every chain visit the same values? Ranks of {what}",
        svg=draw(name, lambda: plots.rank_plot(values, weights)),
        caption=(
            "Each chain should visit low, middle and high values equally often: the bars should be level and lie "
            "mostly within the band expected by chance."
        ),
        alternative=f"Histograms of the ranks of {what}, one strip for each of {wording.plural(count, 'chain')}.",
    )


def _trace(values: np.ndarray, early: np.ndarray | None) -> Picture:
    early = early if _has_draws(early) else None
    return Picture(
        title="Was the warm-up long enough? Log posterior by draw",
        svg=draw("trace", lambda: plots.log_posterior_trace(values, early)),
        caption="After the warm-up, all chains should fluctuate around the same level without a trend.",
        alternative=(
            f"Lines of the log posterior for {wording.plural(len(values), 'chain')} over "
            f"{wording.plural(values.shape[1], 'draw')}; mean by chain: "
            f"{', '.join(wording.number(float(mean), 5) for mean in values.mean(axis=1)[:8])}."
        ),
    )


def _energies(energy: np.ndarray) -> Picture:
    values = e_bfmi(energy)
    return Picture(
        title="Can every transition reach every energy?",
        svg=draw("energy", lambda: plots.energy_plot(energy)),
        caption=(
            "The outline (changes from draw to draw) should be about as wide as the filled histogram (all draws): "
            "then a transition can reach every energy."
        ),
        alternative=(
            "Histograms of the energies and of the changes in energy from draw to draw. E-BFMI by chain: "
            f"{', '.join(wording.number(float(value), 2) for value in values[:8])}."
        ),
    )


def _transitions(record: RunRecord) -> Picture:
    accepted = record.stats["acceptance_rate"]
    steps = record.stats.get("n_steps", np.empty((len(accepted), 0)))
    target = wording.real(record.metrics.get("diagnostics") or {}, "target_acceptance")
    thin = int(thin_of(record.metrics))
    return Picture(
        title="Is the step size right, and what does a draw cost?",
        svg=draw(
            "transitions",
            lambda: plots.transitions_plot(accepted, steps, target_acceptance=target, thin=thin)[0],
        ),
        caption="The mean acceptance should be near its target; the number of steps shows the cost of each draw.",
        alternative=(
            f"Histograms of acceptance, mean {np.mean(accepted):.2f}, and of leapfrog steps per "
            f"{'transition' if thin == 1 else 'draw'}."
        ),
    )
