"""Several models as one: the weighted average of their predictive distributions, saved and used like a model."""

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp, xlogy

from ergonet._errors import RunDirectoryError, SettingError
from ergonet.datasets.preprocessing import Preprocessing
from ergonet.draws.durable import write_json
from ergonet.draws.replacement import Claim, Content
from ergonet.prediction.pit import cumulative
from ergonet.prediction.predictive import Prediction, sample_predictive
from ergonet.prediction.units import is_reversed, on_network_scale, predict_in_units
from ergonet.runs import files
from ergonet.runs.claiming import run_content
from ergonet.runs.directory import Fitted, RunDirectory

STACK = "stack.json"
FORMAT_VERSION = 1
_PRECISION = 1e-5  # of quantiles, in units of the predictive standard deviation
_MOST_STEPS = 60


@dataclass(frozen=True, eq=False)
class Stacked:
    """A weighted average of predictive distributions of runs.

    Attributes:
        members: the runs, as `RunDirectory.read_fitted` reads them.
        weights: of the members, ``[model]``, above 0, with sum 1.
    """

    members: tuple[Fitted, ...]
    weights: Float[np.ndarray, "model"]

    @classmethod
    def of(cls, runs: Mapping[str | os.PathLike[str], float]) -> "Stacked":
        """Read runs, which `ergonet fit` or `save` of an estimator has written.

        Args:
            runs: the weight of each run directory, at least 0; those below 1e-6 of the sum are left out.

        Raises:
            RunDirectoryError: a run directory cannot be read.
            SettingError: a weight is negative or not finite, all are 0, or the runs predict different targets.
        """
        weights = np.asarray(list(runs.values()), np.float64)
        if not len(weights) or not np.isfinite(weights).all() or (weights < 0).any() or not weights.sum() > 0:
            raise SettingError(f"`runs` need weights of at least 0, one of them above 0; got {weights.tolist()}.")
        used = weights > 1e-6 * weights.sum()
        members = [RunDirectory(Path(path)).read_fitted() for path, is_used in zip(runs, used, strict=True) if is_used]
        for path, one in zip(np.asarray(list(map(str, runs)))[used], members, strict=True):
            _require_same_target(members[0].preprocessing, one.preprocessing, str(path))
        return cls(tuple(members), weights[used] / weights[used].sum())

    @property
    def preprocessing(self) -> Preprocessing:
        """That of the first member, which names the targets and the classes of all."""
        return self.members[0].preprocessing

    def predict(
        self, x: Any, *, levels: Sequence[float] = (0.05, 0.95), y: Any = None, argument: str = "`x`"
    ) -> Prediction:
        """Compute the predictive distribution of each row; see `ergonet.predict`.

        Args:
            x: a table with the input columns of every member, or an array of them.
            levels: probabilities of the quantiles, in (0, 1).
            y: targets, needed only for the log predictive density.
            argument: name of `x` in messages.

        Returns:
            The weighted average, in units of the table. `function_sd` includes the spread between the members.
        """
        inputs = [one.preprocessing.transform(x, argument=argument) for one in self.members]
        parts = [_in_units(one, rows, levels, y) for one, rows in zip(self.members, inputs, strict=True)]
        mean = self._average([one.mean for one in parts])
        apart = self._average([(one.mean - mean) ** 2 for one in parts])
        spread = self._average([one.function_sd.astype(np.float64) ** 2 for one in parts]) + apart
        density = None if y is None else logsumexp([one.log_density for one in parts], axis=0, b=self.weights[:, None])
        if parts[0].sd is None:
            return Prediction(
                mean=mean,
                sd=None,
                noise_sd=None,
                function_sd=np.sqrt(spread),
                levels=(),
                quantiles=None,
                log_density=density,
                entropy=-xlogy(mean, mean).sum(axis=1),
                expected_entropy=self._average([np.asarray(one.expected_entropy) for one in parts]),
            )
        noise = self._average([np.asarray(one.noise_sd) ** 2 for one in parts])
        total = np.sqrt(noise + spread)
        return Prediction(
            mean=mean,
            sd=total,
            noise_sd=np.sqrt(noise),
            function_sd=np.sqrt(spread),
            levels=parts[0].levels,
            quantiles=self._quantiles(inputs, parts, total) if parts[0].levels else None,
            log_density=density,
            entropy=None,
            expected_entropy=None,
        )

    def sample(self, x: Any, *, num_samples: int, seed: int, first_row: int = 0) -> np.ndarray:
        """Simulate targets `[sample, rows, targets]` in units of the table; see `sample_predictive`."""
        rng = np.random.default_rng(seed)
        counts = rng.multinomial(num_samples, self.weights)
        drawn = [
            _units(one, _simulated(one, x, int(count), seed + number, first_row))
            for number, (one, count) in enumerate(zip(self.members, counts, strict=True))
            if count
        ]
        return np.concatenate(drawn)[rng.permutation(num_samples)]

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write a folder with the weights and a run directory for each member, which needs no other file.

        Raises:
            RunDirectoryError: the folder exists, contains files that Ergonet did not write, or has another writer.
        """
        with closing(Claim(Path(path), Content(_foreign, "pass `overwrite=True`"), overwrite=overwrite)) as claim:
            claim.folder.mkdir(exist_ok=True)
            for number, one in enumerate(self.members):
                directory = RunDirectory(claim.folder / _name(number))
                directory.write_settings(one.settings, one.preprocessing)
                one.samples.save(directory.draws)
                directory.write_manifest()
            write_json(claim.folder / STACK, {"format_version": FORMAT_VERSION, "weights": self.weights.tolist()})
            claim.take()
        return Path(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Stacked":
        """Read what `save` has written.

        Raises:
            RunDirectoryError: the folder is not such a one, is damaged, or of another version.
        """
        file = Path(path) / STACK
        content = files.parse(file, files.read(file, None))
        if content.get("format_version") != FORMAT_VERSION:
            raise RunDirectoryError(
                f"{str(file)!r} has format version {content.get('format_version')!r}, but this version of Ergonet "
                f"reads {FORMAT_VERSION}. Use the version that wrote it."
            )
        weights = files.using(file, lambda: [float(one) for one in content["weights"]])
        return files.using(file, lambda: cls.of({Path(path) / _name(at): one for at, one in enumerate(weights)}))

    def _average(self, values: Sequence[np.ndarray]) -> np.ndarray:
        return np.tensordot(self.weights, np.stack(values).astype(np.float64), axes=1)

    def _quantiles(self, inputs: Sequence[np.ndarray], parts: Sequence[Prediction], sd: np.ndarray) -> np.ndarray:
        """Quantiles of the average, `[level, rows, targets]`, which are between those of the members."""
        found = np.stack([np.asarray(one.quantiles, np.float64) for one in parts])
        count, (_, rows, targets) = len(parts[0].levels), found.shape[1:]
        tiled = [np.tile(one, (count, 1)) for one in inputs]
        levels = np.repeat(np.asarray(parts[0].levels), rows)[:, None]

        def excess(y: np.ndarray) -> np.ndarray:
            reached = [_reached(one, x, y) for one, x in zip(self.members, tiled, strict=True)]
            return self._average(reached) - levels

        low, high = (one.reshape(-1, targets) for one in (found.min(axis=0), found.max(axis=0)))
        if self.members[0].model.likelihood.is_discrete:
            return _whole_roots(excess, low, high).reshape(count, rows, targets)
        return _roots(excess, low, high, _PRECISION * np.tile(sd, (count, 1))).reshape(count, rows, targets)


def _roots(function: Any, low: np.ndarray, high: np.ndarray, width: np.ndarray) -> np.ndarray:
    """Roots of an increasing function by false position (the Illinois method), every third step by bisection."""
    below, above, side = function(low), function(high), np.zeros(low.shape)
    for step in range(_MOST_STEPS):
        if np.all((high - low <= width) | (np.minimum(-below, above) <= _PRECISION)):
            break
        gap = np.where(above - below > 0, above - below, 1.0)
        point = (low + high) / 2 if step % 3 == 2 else np.clip(low - below * (high - low) / gap, low, high)
        value = function(point)
        is_below = value < 0
        above = np.where(is_below, np.where(side < 0, above / 2, above), value)
        below = np.where(is_below, value, np.where(side > 0, below / 2, below))
        low, high, side = np.where(is_below, point, low), np.where(is_below, high, point), np.where(is_below, -1, 1)
    return np.where(-below < above, low, high)


def _whole_roots(function: Any, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The smallest whole numbers at which an increasing function is at least 0, by bisection."""
    while np.any(low < high):
        middle = np.floor((low + high) / 2)
        is_reached = function(middle) >= 0
        low, high = np.where(is_reached, low, np.minimum(middle + 1, high)), np.where(is_reached, middle, high)
    return high


def _name(number: int) -> str:
    return f"member-{number}"


def _reached(one: Fitted, inputs: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Probability of at most `y`, `[rows, targets]`; 0 or 1 on the two sides of what the member holds possible."""
    scaling = one.preprocessing
    scaled = on_network_scale(y, scaling)
    possible = np.isfinite(scaled)
    scaled = np.where(possible, scaled, 0.0).astype(np.float32)
    reached = cumulative(one.samples, inputs, scaled, model=one.model)[1].T
    reached = 1 - reached if is_reversed(scaling) else reached
    return np.where(possible, reached, y > scaling.inverse_target(np.zeros((1, y.shape[1]))))


def _simulated(one: Fitted, x: Any, count: int, seed: int, first_row: int) -> np.ndarray:
    inputs = one.preprocessing.transform(x, argument="`x`")
    return sample_predictive(one.samples, inputs, num_samples=count, seed=seed, model=one.model, first_row=first_row)


def _units(one: Fitted, values: np.ndarray) -> np.ndarray:
    return values if one.preprocessing.task == "classification" else one.preprocessing.inverse_target(values)


def _in_units(one: Fitted, inputs: np.ndarray, levels: Sequence[float], y: Any) -> Prediction:
    """The prediction of a member, in units of the table."""
    scaling = one.preprocessing
    targets = None if y is None else scaling.transform_target(y, argument="`y`")
    return predict_in_units(one.samples, inputs, model=one.model, preprocessing=scaling, levels=levels, y=targets)


def _require_same_target(first: Preprocessing, other: Preprocessing, path: str) -> None:
    for what in ("task", "target_names", "classes"):
        one, another = getattr(first, what), getattr(other, what)
        if one != another:
            raise SettingError(
                f"Runs can be stacked if they predict the same: `{what}` of {path!r} is {another!r}, and that of the "
                f"first is {one!r}. Fit both to the same target."
            )


def _foreign(folder: Path) -> Path | None:
    """The first file in a folder of a stacked predictor that Ergonet did not write; None if there is none."""
    if folder.is_symlink() or not folder.is_dir() or not (folder / STACK).is_file():
        return folder
    content = run_content("")
    for entry in sorted(folder.iterdir()):
        if entry.name == STACK:
            continue
        found = content.foreign(entry) if entry.name.startswith(_name(0)[:-1]) else entry
        if found is not None:
            return found
    return None
