"""What can be said of the learned scales of weights and noise."""

from collections.abc import Mapping
from typing import Any, Final

from ergonet.diagnostics.finding import (
    DRAWS,
    LARGEST_RHAT,
    MODES,
    SCALES,
    SMALLEST_ESS_PER_CHAIN,
    Finding,
    beside,
    number,
    shown_rhat,
)
from ergonet.diagnostics.held_out import USEFUL_ESS, are_of_modes

READABLE_RHAT: Final = 1.05  # of scales that nothing but a reader depends on


def judge_scales(metrics: Mapping[str, Any], diagnostics: Mapping[str, Any]) -> list[Finding]:
    """What learned scales say: as much as predictions, unless these mix, so that scales are only read."""
    needed = SMALLEST_ESS_PER_CHAIN * int(metrics.get("num_chains") or 1)
    do_predictions_mix = (
        number(diagnostics, "max_rhat_function") <= LARGEST_RHAT
        and number(diagnostics, "min_ess_bulk_function") >= needed
    )
    allowed, wanted = (READABLE_RHAT, USEFUL_ESS) if do_predictions_mix else (LARGEST_RHAT, needed)
    largest, smallest = number(diagnostics, "max_rhat_scales"), number(diagnostics, "min_ess_bulk_scales")
    found = []
    if largest > allowed:
        found.append(f"R-hat is {shown_rhat(largest, allowed)} and should be at most {allowed}")
    if smallest < wanted:
        found.append(
            f"the smallest ESS is {beside(smallest, float(wanted), decimals=0)} and should be at least {wanted}"
        )
    if not found:
        return []
    if are_of_modes(metrics, diagnostics):
        return [
            Finding(
                problem=False,
                subject=MODES,
                sentence=f"Each mode has learned scales of its own: {'; '.join(found)}. Predictions average over the "
                "modes, but no single number describes a scale, or the relevance of an input.",
            )
        ]
    predictions = "Predictions mix" if do_predictions_mix else "The predictions may still be sound"
    return [
        Finding(
            problem=not do_predictions_mix,
            subject=SCALES if do_predictions_mix else DRAWS,
            sentence=f"The learned scales of weights or noise do not mix: {'; '.join(found)}. {predictions}, but do "
            "not rely on the learned scales or on the relevance of inputs. Run more draws, or sample weights and "
            "scales jointly with non-centered weights, as `NUTS` does by default.",
        )
    ]
