"""Stops a run whose chains no longer sample: chains that stand still, and storms of divergences.

A chain is judged by its latest draws: the last 200, or the last half of its draws if these are more. It *stands still*
if none of them has moved, and is in a *storm* if more than half of their transitions diverged. The run stops when this
holds for every chain, so that more draws would change nothing; as long as a chain samples, the run goes on, and the
user is told at once which chains do not.

False alarms: if each proposal is accepted with a probability of at least 5 %, a chain stands still over 200 draws with
a probability of at most 4e-5, and one of which 30 % of the transitions diverge independently is in a storm with a
probability of 1e-9. Since the judged draws grow with the run, the total over all looks is of the same order.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ergonet._errors import DivergedError
from ergonet.diagnostics.advice import STANDSTILL, STORM
from ergonet.draws.recorder import Chunk, Recorder
from ergonet.inference.drive import AbstractStopRule
from ergonet.inference.jobs import AbstractJob, Say

FEWEST_DRAWS = 200
LARGEST_SHARE = 0.5


@dataclass
class _History:
    """What the draws of one chain so far tell, one entry for each."""

    moved: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))
    diverging: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))

    def verdict(self, thin: int) -> tuple[str, str]:
        """The kind of trouble and its description; empty if the chain samples, or if it is too early to tell."""
        judged = max(FEWEST_DRAWS, len(self.moved) // 2)
        if len(self.moved) < judged:
            return "", ""
        if not self.moved[-judged:].any():
            return STANDSTILL, f"it has not moved in its last {judged} draws"
        share = divergent_share(self.diverging[-judged:], thin)
        if share > LARGEST_SHARE:
            return STORM, f"{100 * share:.0f} % of the transitions of its last {judged} draws diverged"
        return "", ""


def divergent_share(diverging: np.ndarray, thin: int) -> float:
    """The share of divergent transitions, if a draw of `thin` transitions says whether any of them diverged.

    With 1 - share = (1 - p)^thin for independent divergences; those of a storm come together, which makes this too low.
    """
    without = max(1 - float(diverging.mean()), 1 / len(diverging) if thin > 1 else 0.0)
    return 1 - without ** (1 / thin)


class NoLongerSampling(AbstractStopRule):
    """Stops a run when every chain stands still or is in a storm of divergences."""

    is_final = True

    def __init__(self, say: Say, *, thin: int):
        """Check and keep the settings.

        Args:
            say: tells the user about a chain in trouble, once for each chain.
            thin: transitions per draw, at least 1.
        """
        self._say, self._thin = say, thin
        self._histories: dict[int, _History] = defaultdict(_History)
        self._verdicts: dict[int, tuple[str, str]] = {}
        self._told: set[int] = set()
        self._reason = ""

    def watch(self, chunk: Chunk) -> None:
        if chunk.is_warmup or not {"moved", "diverging"} <= set(chunk.fields):
            return
        for row, chain in enumerate(chunk.chains):
            history = self._histories[chain]
            history.moved = np.concatenate([history.moved, chunk.fields["moved"][row]])
            history.diverging = np.concatenate([history.diverging, chunk.fields["diverging"][row]])
            kind, what = self._verdicts[chain] = history.verdict(self._thin)
            if kind and chain not in self._told:
                self._told.add(chain)
                self._say(
                    f"Chain {chain} (counted from 0) no longer samples: {what}. The run goes on while another does."
                )

    def reason(self, jobs: Sequence[AbstractJob], recorder: Recorder) -> str:
        chains = [chain for job in jobs for chain in job.chains]
        verdicts = [self._verdicts.get(chain, ("", "")) for chain in chains]
        if not self._reason and verdicts and all(kind for kind, _ in verdicts):
            kind, what = next((one for one in verdicts if one[0] == STORM), verdicts[0])
            where = f"chain {chains[0]}" if len(chains) == 1 else "every chain"
            number = chains[verdicts.index((kind, what))]
            self._reason = f"{kind} in {where} (chain {number}: {what})"
        return self._reason

    def error(self, jobs: Sequence[AbstractJob]) -> DivergedError:
        return DivergedError(f"There was {self._reason} before a draw was stored. Use a smaller step size.")
