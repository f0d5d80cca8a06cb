"""The picture that most tables have: test errors by row."""

from collections.abc import Callable, Mapping
from pathlib import Path

from experiments.lau2018.digits import PREDICTIVE, SINGLE, SINGLE_SD
from experiments.pictures import ERRORS_SEEN, errors_by_row
from experiments.record import Table


def errors_picture(name: str) -> Callable[[Table, Path], Mapping[str, str]]:
    """A function that draws `NAME.png` with the single-draw and predictive errors of every row."""

    def draw(table: Table, folder: Path) -> Mapping[str, str]:
        file = f"{name}.png"
        errors_by_row(table, folder / file, (SINGLE, PREDICTIVE), spread=SINGLE_SD)
        return {file: ERRORS_SEEN}

    return draw
