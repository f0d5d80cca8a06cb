"""A fault to plant."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """A mistake that could be made.

    Attributes:
        name: what is wrong, in a few words.
        file: in `src/ergonet`.
        right: the text as it is.
        wrong: the text with the fault.
        test: what pytest is given; every path with its `-k` expression.
    """

    name: str
    file: str
    right: str
    wrong: str
    test: tuple[str, str]
