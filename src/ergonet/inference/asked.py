"""What every run is asked for: checked before any work, and where its draws go."""

import os
from typing import Any

from ergonet._checks import LARGEST_COUNT, is_integer, is_number
from ergonet._errors import CapabilityError, SettingError
from ergonet.adaptation.warmup import check_num_warmup
from ergonet.inference.store import AbstractStore, MemoryStore, ZarrStore
from ergonet.models.target import Target


def check_asked(
    target: Any, *, num_chains: Any, num_warmup: Any, num_draws: Any, thin: Any = 1, seed: Any, time_limit: Any
) -> None:
    """Say what is wrong with an argument, by its name.

    Raises:
        CapabilityError: the target is none.
        SettingError: a number is not an integer, or out of its range.
    """
    if not isinstance(target, Target):
        raise CapabilityError(
            f"`target` must be an `ergonet.Target`, got {type(target).__name__}. Make one with "
            f"`Target.from_logdensity(logdensity_fn, example)` or `BayesianNetwork(...).condition(x, y)`."
        )
    check_num_warmup(num_warmup)
    for name, value in (("num_chains", num_chains), ("num_draws", num_draws), ("thin", thin)):
        if not is_integer(value) or value < 1:
            raise SettingError(f"`{name}` must be an integer of at least 1, got {value!r}.")
    if thin > LARGEST_COUNT:
        raise SettingError(f"`thin` must be at most {LARGEST_COUNT}, got {thin!r}.")
    if not is_integer(seed) or not 0 <= seed < 2**63:
        raise SettingError(f"`seed` must be an integer of 0 to 2^63 - 1, got {seed!r}.")
    if time_limit is not None and not (is_number(time_limit) and time_limit > 0):
        raise SettingError(f"`time_limit` must be above 0 seconds, got {time_limit!r}.")


def open_store(store: Any) -> AbstractStore:
    """Of what was given: None, a path, or a store."""
    if store is None:
        return MemoryStore()
    if isinstance(store, AbstractStore):
        return store
    if isinstance(store, str | os.PathLike):
        return ZarrStore(store)
    raise SettingError(f"`store` must be None, a path or a store, got {store!r}.")
