"""What can be said of the learned scales of weights and noise."""

from collections.abc import Mapping
from typing import Any, Final

from ergonet.diagnostics.finding import (
    DRAWS,
    LARGEST_RHAT,
    MODES,
    SCALES,
    Finding,
    beside,
    needed_ess,
    number,
    shown_rhat,
)
from ergonet.diagnostics.held_out import USEFUL_ESS, are_of_modes

READABLE_RHAT: Final = 1.05  # of learned scales if predictions mix


def do_predictions_mix(metrics: Mapping[str, Any]) -> bool:
    """Whether R-hat and ESS of the predictions are within their limits."""
    found = metrics.get("diagnostics") or {}
    largest, smallest = number(found, "max_rhat_function"), number(found, "min_ess_bulk_function")
    return largest <= LARGEST_RHAT and smallest >= needed_ess(metrics)


def limits_of_scales(metrics: Mapping[str, Any]) -> tuple[float, int]:
    """Largest R-hat and smallest ESS of learned scales.

    They are those of predictions. If predictions are within them, scales matter only to those who read them, and looser
    limits will do.
    """
    return (READABLE_RHAT, USEFUL_ESS) if do_predictions_mix(metrics) else (LARGEST_RHAT, needed_ess(metrics))


def judge_scales(metrics: Mapping[str, Any], diagnostics: Mapping[str, Any]) -> list[Finding]:
    """What to say of learned scales that do not mix; empty if they do, or if there are none."""
    allowed, wanted = limits_of_scales(metrics)
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
    is_note = do_predictions_mix(metrics)
    predictions = "Predictions mix" if is_note else "The predictions may still be sound"
    return [
        Finding(
            problem=not is_note,
            subject=SCALES if is_note else DRAWS,
            sentence=f"The learned scales of weights or noise do not mix: {'; '.join(found)}. {predictions}, but do "
            "not rely on the learned scales or on the relevance of inputs. Run more draws, or sample weights and "
            "scales jointly with non-centered weights, as `NUTS` does by default.",
        )
    ]
