"""A stand-in for an expensive program of physics: a cross section as a formula of masses and mixings."""

import dataclasses
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from ergonet._checks import is_integer
from ergonet._errors import SettingError, shown
from ergonet.datasets.dataset import Dataset
from ergonet.datasets.tables import from_table
from ergonet.datasets.transforms import AbstractTransform
from ergonet.datasets.validation import check_seed, check_test_fraction

TARGET: Final = "sigma_pb"
RANGES: Final[dict[str, tuple[float, float]]] = {
    "m_first_gev": (100.0, 800.0),
    "m_second_gev": (100.0, 800.0),
    "m_squark_gev": (500.0, 3000.0),
    "theta_first": (0.0, np.pi / 3),
    "theta_second": (0.0, np.pi / 3),
}
"""Inputs and the intervals from which they are drawn: masses in GeV, mixing angles in radians."""

TRAIN, VALIDATION = 0.80, 0.05  # shares of the rows; the rest are for testing
_FEWEST = 20  # rows, so that each part has one
_BUILT_IN_ROWS, _BUILT_IN_SEED = 4000, 0
_COLLIDER_GEV = 13_000.0
_Z_GEV = 91.19
_COUPLING = 0.42  # squared weak coupling
_PB_GEV2 = 3.894e8  # (hbar c)^2


@dataclass(frozen=True, eq=False)
class CrossSections:
    """Points of a cross section, divided as in Ask2022, section 7.1.3.

    Attributes:
        x: inputs `[rows, 5]` in the order of `names`, masses in GeV and angles in radians.
        y: the cross section in picobarn, above 0, `[rows]`.
        names: names of the inputs.
        train: indices of the training rows, 80 %.
        validation: indices of 5 % of the rows, for choices between models.
        test: indices of the other rows, about 15 %.
    """

    x: Float[np.ndarray, "rows 5"]
    y: Float[np.ndarray, "rows"]
    names: tuple[str, ...]
    train: Int[np.ndarray, "train"]
    validation: Int[np.ndarray, "validation"]
    test: Int[np.ndarray, "test"]

    @property
    def frame(self) -> pd.DataFrame:
        """Inputs and the target `sigma_pb` as a table."""
        return pd.DataFrame(self.x, columns=list(self.names)).assign(**{TARGET: self.y})


def cross_section(n: int = 16_000, seed: int = 0) -> CrossSections:
    """Make a data set with the shape of that of Ask2022, whose program is not needed: smooth, positive, without noise.

    The production of two heavy fermions of masses m1 and m2 by quarks, through a Z boson and by exchange of a squark of
    mass mq, in the manner of neutralinos at a collider of E = 13000 GeV. It is no prediction of any theory. With masses
    in GeV, mixing angles t1 and t2 in radians, M = m1 + m2, s = (1.1 M)^2, r = M / E and g^2 = 0.42::

        A     = cos(t1) cos(t2) / (s - 91.19^2)         (Z boson)
        B     = sin(t1) sin(t2) / (s / 2 + mq^2)        (squark)
        beta  = sqrt(1 - M^2 / s)
        flux  = (1 - r)^10 r^-2
        sigma = 3.894e8 pb GeV^2 * g^4 / (16 pi) * beta * s * (A^2 + A B + B^2) * flux * 1e-6

    Inputs are uniform: masses m1, m2 from 100 to 800, mq from 500 to 3000, and both angles from 0 to pi / 3. The cross
    section covers nearly five orders of magnitude.

    Args:
        n: number of rows, at least 20.
        seed: of the inputs, 0 or larger.

    Returns:
        The rows with their division into 80 % for training, 5 % for validation and 15 % for testing. They are
        independent of one another, so the parts follow each other.

    Raises:
        SettingError: `n` or `seed` is out of range.
    """
    if not is_integer(n) or n < _FEWEST:
        raise SettingError(f"`n` must be an integer of at least {_FEWEST}, so that each part has rows, got {shown(n)}.")
    check_seed(seed)
    low, high = np.array(list(RANGES.values())).T
    x = np.random.default_rng(seed).uniform(low, high, size=(int(n), len(RANGES)))
    train, validation, test = np.split(np.arange(n), [round(TRAIN * n), round((TRAIN + VALIDATION) * n)])
    return CrossSections(x, sigma(x), tuple(RANGES), train, validation, test)


def sigma(x: Float[np.ndarray, "rows 5"]) -> Float[np.ndarray, "rows"]:
    """The cross section in picobarn at inputs in the order of `RANGES`; `cross_section` has the formula."""
    first, second, squark, t1, t2 = np.asarray(x, np.float64).T
    total = first + second
    energy = (1.1 * total) ** 2
    boson = np.cos(t1) * np.cos(t2) / (energy - _Z_GEV**2)
    exchange = np.sin(t1) * np.sin(t2) / (energy / 2 + squark**2)
    share = total / _COLLIDER_GEV
    flux = 1e-6 * (1 - share) ** 10 * share**-2
    front = _PB_GEV2 * _COUPLING**2 / (16 * np.pi) * np.sqrt(1 - total**2 / energy)
    return front * energy * (boson**2 + boson * exchange + exchange**2) * flux


def built_in(*, test_fraction: float, seed: int, target_transform: AbstractTransform | None = None) -> Dataset:
    """4000 points: 3200 training rows and 600 test rows, always the same; those for validation are left out."""
    check_test_fraction(test_fraction)
    check_seed(seed)
    points = cross_section(_BUILT_IN_ROWS, _BUILT_IN_SEED)
    train, test = points.frame.iloc[points.train], points.frame.iloc[points.test]
    dataset = from_table(train, TARGET, task="regression", test_frame=test, target_transform=target_transform)
    return dataclasses.replace(dataset, name="cross-section", test_rows=points.test)
