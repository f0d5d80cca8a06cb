"""What explanations need of a fitted model: a few draws, the network, and its inputs as the user knows them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ergonet._errors import CapabilityError, DataError, SettingError, shown, suggest
from ergonet.datasets.kinds import CATEGORICAL, CLOSED, DATE, EMBEDDED
from ergonet.datasets.preprocessing import Preprocessing
from ergonet.draws.quantities import spread_draws
from ergonet.draws.samples import Samples
from ergonet.models.network_posterior import AbstractNetworkPosterior, BayesianNetwork

MOST_DRAWS = 256  # of all chains
ONE_HOT = (CATEGORICAL, CLOSED)


@dataclass(frozen=True)
class Input:
    """A column of the user's table, or a part of a date, and the network inputs that it becomes.

    Attributes:
        name: name of the column.
        indices: the network inputs: one for a number, one per category, one for each part of a date.
        categories: the categories; empty for a number, whose further inputs flag missing entries.
        can_vary: whether the column can be set to a value of choice; not if it is an index of many categories, or a
            date.
    """

    name: str
    indices: tuple[int, ...]
    categories: tuple[str, ...] = ()
    can_vary: bool = True


@dataclass(frozen=True)
class Explained:
    """A fitted model with a few of its draws.

    Attributes:
        samples: draws of equal weight, at most 256, as one chain.
        model: the network.
        preprocessing: from the user's columns to network inputs; None: inputs are those of the network.
        labels: class labels in the order of the probabilities, as the user gives them; empty for a regression.
    """

    samples: Samples
    model: BayesianNetwork
    preprocessing: Preprocessing | None = None
    labels: tuple[Any, ...] = ()

    @classmethod
    def of(cls, fitted: Any) -> "Explained":
        """A fitted estimator, a run that was read, or samples from the posterior of a network.

        Raises:
            CapabilityError: the samples carry no network.
            SettingError: it is none of these, or an estimator that is not fitted.
        """
        if isinstance(fitted, Explained):
            return fitted
        if isinstance(fitted, Samples):
            if not isinstance(fitted.target, AbstractNetworkPosterior):
                raise CapabilityError(
                    "These samples carry no network. Load them with their target: `ergonet.load(path, target=...)`."
                )
            return cls(few(fitted), fitted.target.model)
        samples, model, preprocessing = (
            getattr(fitted, f"{name}_", getattr(fitted, name, None)) for name in ("samples", "model", "preprocessing")
        )
        if not (
            isinstance(samples, Samples)
            and isinstance(model, BayesianNetwork)
            and isinstance(preprocessing, Preprocessing)
        ):
            raise SettingError(
                f"Explanations need a fitted estimator, a run that was read, or samples; got {shown(fitted)}. Call "
                f"`fit` first."
            )
        labels = getattr(fitted, "classes_", None)
        found = preprocessing.classes if labels is None else np.asarray(labels).tolist()
        return cls(few(samples), model, preprocessing, tuple(found))

    def input_names(self, count: int) -> tuple[str, ...]:
        """Names of so many network inputs."""
        if self.preprocessing is not None:
            return self.preprocessing.encoded_names
        return tuple(f"x{index}" for index in range(count))

    def columns(self, count: int) -> tuple[Input, ...]:
        """The user's columns, for a network of so many inputs."""
        if self.preprocessing is None:
            return tuple(Input(f"x{index}", (index,)) for index in range(count))
        found: list[Input] = []
        start = 0
        for name, inputs in self.preprocessing.inputs_of.items():
            kind, indices = self.preprocessing.encoder(name).kind, tuple(range(start, start + len(inputs)))
            start += len(inputs)
            categories = tuple(one.removeprefix(f"{name}=") for one in inputs) if kind in ONE_HOT else ()
            found.append(Input(name, indices, categories, can_vary=kind not in (EMBEDDED, DATE)))
        return tuple(found)

    def settable(self, count: int) -> tuple[Input, ...]:
        """What can be set to values of choice, or has too many of them: the columns, but a date by its parts."""
        found: list[Input] = []
        for column in self.columns(count):
            encoder = None if self.preprocessing is None else self.preprocessing.encoder(column.name)
            if encoder is None or encoder.kind != DATE:
                found.append(column)
                continue
            names = self.input_names(count)
            parts = column.indices[: len(encoder.parts)]  # without the flag of missing dates
            found += [Input(names[index], (index,)) for index in parts]
        return tuple(found)

    def scaled(self, x: Any) -> np.ndarray:
        """Network inputs `[rows, inputs]` of a table or an array.

        Raises:
            DataError: it does not match the training rows, or has no rows.
            CapabilityError: a row is no list of numbers, as that of an image.
        """
        scaled = np.asarray(x) if self.preprocessing is None else self.preprocessing.transform(x, argument="`x`")
        if scaled.ndim != 2:
            raise CapabilityError(f"Explanations need inputs of shape [rows, inputs], got {list(scaled.shape)}.")
        if not len(scaled):
            raise DataError("`x` has no rows. Explanations average over the rows that they are given.")
        return scaled.astype(np.float32)

    def targets(self, y: Any) -> np.ndarray:
        """Targets as the network takes them: class indices, or scaled numbers.

        Raises:
            DataError: they do not match the training rows.
        """
        if self.preprocessing is None:
            return np.asarray(y)
        if self.labels == self.preprocessing.classes:
            return self.preprocessing.transform_target(y, argument="`y`")
        positions = {label: index for index, label in enumerate(self.labels)}
        labels = np.asarray(y).reshape(-1).tolist()
        unknown = next((label for label in labels if label not in positions), None)
        if unknown is not None:
            raise DataError(f"`y` has the label {unknown!r}. {suggest(str(unknown), map(str, self.labels))}")
        return np.array([positions[label] for label in labels], np.int32)


def chosen(inputs: Sequence[Input], names: Sequence[str] | str | None) -> tuple[Input, ...]:
    """The inputs with these names; None: all.

    Raises:
        SettingError: there is no input of that name.
    """
    every = {one.name: one for one in inputs}
    wanted = list(every) if names is None else [names] if isinstance(names, str) else list(names)
    for name in wanted:
        if name not in every:
            raise SettingError(f"`columns`: {name!r} is no input. {suggest(name, every)}")
    return tuple(every[name] for name in wanted)


def few(samples: Samples) -> Samples:
    """At most `MOST_DRAWS` draws of all chains as one chain, spread evenly over the weights of all draws."""
    (chosen,) = spread_draws(samples.weights().reshape(1, -1), MOST_DRAWS)
    chains, draws = np.divmod(chosen, samples.num_draws)
    positions = [_picked(samples, int(chain), draws[chains == chain]) for chain in np.unique(chains)]
    return replace(samples, positions=np.concatenate(positions)[None], stats={})


def _picked(samples: Samples, chain: int, chosen: np.ndarray) -> np.ndarray:
    """The positions of the chosen draws of a chain, ascending, `[draw, dim]`."""
    parts: list[np.ndarray] = []
    start = 0
    for chunk in samples.chunks(chain):
        parts.append(chunk[chosen[(chosen >= start) & (chosen < start + len(chunk))] - start])
        start += len(chunk)
    return np.concatenate(parts)


def spread_rows(count: int, most: int) -> np.ndarray:
    """Indices of at most so many rows, evenly spaced."""
    return np.arange(count) if count <= most else np.linspace(0, count - 1, most).round().astype(np.int64)
