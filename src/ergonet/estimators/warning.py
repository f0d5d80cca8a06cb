"""The warning of an estimator about its draws."""

import warnings
from collections.abc import Mapping
from typing import Any

from ergonet._errors import SamplingWarning
from ergonet.diagnostics.advice import find
from ergonet.diagnostics.finding import MODES, UNJUDGED
from ergonet.draws.samples import Samples

REPORTED: Mapping[str, Any] = {  # at the end of the run
    "divergences": 0,
    "nonfinite": 0,
    "stuck_chains": [],
    "rejected_metrics": 0,
    "rounding_error": None,
}


def warn_of(samples: Samples, diagnostics: Mapping[str, Any], *, dim: int, wanted: int | None) -> None:
    """Issue one warning with a sentence per problem, except those that `sample` has warned of.

    Args:
        samples: the draws.
        diagnostics: their diagnostics.
        dim: number of coordinates.
        wanted: draws of each chain that were asked for.
    """
    metrics = {
        "num_chains": samples.num_chains,
        "num_draws": samples.num_draws,
        "thin": samples.about.get("thin", 1),
        "kernel": samples.about.get("kernel"),
        "dim": dim,
        "warm_start": "warm_start" in samples.about,
        "diagnostics": {**diagnostics, **REPORTED},
    }
    found = [one for one in find(metrics) if one.subject not in (MODES, UNJUDGED)]  # what the default is: no problem
    sentences, stopped = [one.sentence for one in found], samples.about.get("stopped_by")
    if stopped:
        sentences = [f"Stopped by {stopped}: {samples.num_draws} of {wanted} draws of each chain.", *sentences]
    if sentences:
        warnings.warn(" ".join(sentences), SamplingWarning, stacklevel=5)
