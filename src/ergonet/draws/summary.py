"""A table of a run's quantities."""

from typing import Any

import numpy as np

from ergonet.diagnostics.averages import estimates
from ergonet.diagnostics.chains import mcse_mean
from ergonet.diagnostics.function_space import summarize
from ergonet.draws.quantities import draw_weights, learned_scales, monitored, parameters
from ergonet.draws.record import Record
from ergonet.target.capabilities import Monitor
from ergonet.target.contract import offers


def summary_table(record: Record) -> Any:
    """A pandas table by monitored quantity: mean, sd, 5 % and 95 % quantiles, MCSE, bulk and tail ESS, R-hat.

    Draws count by their weights.

    Raises:
        SettingError: every stored draw has weight 0.
    """
    import pandas as pd

    named = _named_quantities(record)
    values = np.concatenate([v.reshape(*v.shape[:2], -1) for v in named.values()], axis=2)
    index = [f"{name}{_subscript(v.shape[2:], i)}" for name, v in named.items() for i in np.ndindex(v.shape[2:])]
    weights = draw_weights(record)
    draws, convergence = estimates(weights), summarize(values, weights)
    return pd.DataFrame(
        {
            "mean": draws.mean(values),
            "sd": draws.sd(values),
            "q5": draws.quantile(values, 0.05),
            "q95": draws.quantile(values, 0.95),
            "mcse_mean": mcse_mean(values, weights),
            "ess_bulk": convergence.ess_bulk,
            "ess_tail": convergence.ess_tail,
            "r_hat": convergence.rhat,
        },
        index=index,
    )


def _named_quantities(record: Record) -> dict[str, np.ndarray]:
    if record.target is not None and offers(record.target, Monitor):
        return {"prediction": monitored(record)} | {f"scale of {name}": v for name, v in learned_scales(record).items()}
    return parameters(record) if record.target is not None else {"x": np.asarray(record.positions)}


def _subscript(shape: tuple[int, ...], index: tuple[int, ...]) -> str:
    return f"[{', '.join(str(i) for i in index)}]" if shape else ""
