"""A table of a run's quantities."""

from typing import Any

import numpy as np

from ergonet.diagnostics.chains import mcse_mean
from ergonet.diagnostics.function_space import summarize
from ergonet.draws.quantities import learned_scales, monitored, parameters
from ergonet.draws.record import Record
from ergonet.target.capabilities import Monitor
from ergonet.target.contract import offers


def summary_table(record: Record) -> Any:
    """A pandas table by monitored quantity: mean, sd, 5 % and 95 % quantiles, MCSE, bulk and tail ESS, R-hat."""
    import pandas as pd

    named = _named_quantities(record)
    values = np.concatenate([v.reshape(*v.shape[:2], -1) for v in named.values()], axis=2)
    index = [f"{name}{_subscript(v.shape[2:], i)}" for name, v in named.items() for i in np.ndindex(v.shape[2:])]
    convergence = summarize(values)
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


def _named_quantities(record: Record) -> dict[str, np.ndarray]:
    if record.target is not None and offers(record.target, Monitor):
        return {"prediction": monitored(record)} | {f"scale of {name}": v for name, v in learned_scales(record).items()}
    return parameters(record) if record.target is not None else {"x": np.asarray(record.positions)}


def _subscript(shape: tuple[int, ...], index: tuple[int, ...]) -> str:
    return f"[{', '.join(str(i) for i in index)}]" if shape else ""
