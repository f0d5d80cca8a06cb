"""The three sizes of a reproduction."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Size:
    """How much is run.

    Attributes:
        mode: `smoke`, `quick` or `full`.
        num_seeds: repetitions of every row of a table, from which Monte Carlo errors are computed.
        num_chains: number of chains of a run.
        num_warmup: warm-up transitions of each chain.
        num_draws: draws of each chain.
        width: factor of the numbers of hidden units.
    """

    mode: str
    num_seeds: int
    num_chains: int
    num_warmup: int
    num_draws: int
    width: float = 1.0

    def units(self, count: int) -> int:
        """Hidden units in place of `count`, at least 2."""
        return max(2, round(count * self.width))

    def with_seeds(self, count: int | None) -> "Size":
        """This size with another number of seeds; None: unchanged."""
        return self if count is None else replace(self, num_seeds=count)

    def part(self, share: float, num_chains: int) -> "Size":
        """A share of the draws and at most `num_chains` chains, for a costly row; a smoke run is unchanged."""
        if self.mode == "smoke":
            return self
        chains = min(num_chains, self.num_chains)
        warmup, draws = round(share * self.num_warmup), round(share * self.num_draws)
        return replace(self, num_chains=chains, num_warmup=warmup, num_draws=draws)

    @property
    def in_words(self) -> str:
        """The size in words, such as `3 seeds of 4 chains x (1000 + 1000)`."""
        cut = "" if self.width == 1 else f", widths of layers times {self.width:g}"
        return f"{self.num_seeds} seeds of {self.num_chains} chains x ({self.num_warmup} + {self.num_draws}){cut}"


SIZES = {
    "smoke": Size("smoke", num_seeds=2, num_chains=2, num_warmup=10, num_draws=10, width=0.03),
    "quick": Size("quick", num_seeds=2, num_chains=2, num_warmup=200, num_draws=200),
    "full": Size("full", num_seeds=3, num_chains=4, num_warmup=1000, num_draws=1000),
}
