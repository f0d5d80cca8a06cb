"""Figures 5 and 7a: SGHMC, SGLD and two optimizers on MNIST and on Fashion-MNIST."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ergonet import SGHMC, SGLD
from ergonet.baselines import SGD
from experiments.chen2014.curves import learning_curves
from experiments.chen2014.images import ERROR, GROUPS, LAST, NLL, SETTING, Epochs, case
from experiments.comparison import differences, significant
from experiments.record import Case, Claim, Experiment, Quantity, Table
from experiments.sizes import Size

HMC, LANGEVIN, DESCENT, MOMENTUM, FOUND = "SGHMC", "SGLD", "SGD", "SGD with momentum", "SGHMC, learning rate found"
AVERAGED = (HMC, LANGEVIN, FOUND)
MNIST_EPOCHS, FASHION_EPOCHS = Epochs(50, 800), Epochs(100, 800)
NOTES = """
The report prints only curves. The figures next to ours for MNIST are those of its authors' public code at 800 epochs:
errors of the averages of SGHMC and SGLD, and of the last networks of the optimizers. The row *learning rate found* is
not in the report: the learning rate comes from this library's stability search.
"""
FASHION_NOTES = """
The report prints only curves, and an accuracy of 0.86 for SGHMC. The row *learning rate found* is not in the report:
the learning rate comes from this library's stability search.
"""


def methods(sghmc: float, sgld: float, sgd: float, momentum: float) -> dict[str, Callable[[int], Any]]:
    """Kernels by label from their learning rates; each takes the batch size."""
    return {
        HMC: lambda batch_size: SGHMC(learning_rate=sghmc, momentum_decay=0.01, batch_size=batch_size),
        LANGEVIN: lambda batch_size: SGLD(learning_rate=sgld, batch_size=batch_size),
        DESCENT: lambda batch_size: SGD(learning_rate=sgd, batch_size=batch_size),
        MOMENTUM: lambda batch_size: SGD(
            learning_rate=momentum, momentum_decay=0.01, nesterov=True, batch_size=batch_size
        ),
        FOUND: lambda batch_size: SGHMC(momentum_decay=0.01, batch_size=batch_size),
    }


def quantity(label: str) -> Quantity:
    """The quantity by which a method is judged: the error of the average, or of the last network."""
    return ERROR if label in AVERAGED else LAST


def cases(name: str, epochs: Epochs, rates: Sequence[float], sources: dict[str, float], _: Size) -> list[Case]:
    """One row for each method."""
    return [
        case(
            label,
            kernel,
            name,
            epochs,
            source={quantity(label).name: sources[label]} if label in sources else {},
        )
        for label, kernel in methods(*rates).items()
    ]


def judge(limit: float, table: Table) -> Sequence[Claim]:
    """The report's conclusion, and the accuracy that this project requires."""
    best = [label for label in table.labels if label != FOUND]
    errors = {label: table.mean(label, quantity(label).name) for label in table.labels}
    told = ", ".join(f"{label} {error:.2f}" for label, error in errors.items())
    winner = min(best, key=errors.__getitem__)
    nll = significant(differences(table, [(HMC, MOMENTUM)], NLL)) if table.of(HMC, NLL.name) else None
    return [
        Claim("SGHMC has the smallest test error of the four methods", winner == HMC, f"%: {told}"),
        Claim(
            f"the test error of SGHMC is at most {limit:g} %",
            errors[HMC] <= limit,
            f"{errors[HMC]:.2f} \N{PLUS-MINUS SIGN} {table.error(HMC, ERROR.name):.2f} %",
        ),
        Claim(
            "the average of SGHMC has a smaller nll than that of the path of SGD with momentum",
            None if nll is None else bool(nll) and nll[0].value < 0,
            f"{table.mean(HMC, NLL.name):.3f} against {table.mean(MOMENTUM, NLL.name):.3f} nats",
        ),
    ]


MNIST = Experiment(
    name="sghmc-mnist",
    title="SGHMC, SGLD and optimizers on MNIST (ChenReport, Figure 5)",
    setting=SETTING
    + "800 epochs, of which 50 are warm-up; SGHMC: learning rate 2e-6, momentum decay 0.01; SGLD: 4e-5; "
    "SGD: 1e-5; SGD with Nesterov's momentum: 1e-6, decay 0.01.",
    cases=partial(
        cases,
        "mnist",
        MNIST_EPOCHS,
        (2e-6, 4e-5, 1e-5, 1e-6),
        {HMC: 2.83, LANGEVIN: 4.12, DESCENT: 4.35, MOMENTUM: 2.86},
    ),
    groups=GROUPS,
    judge=partial(judge, 2.5),
    draw=learning_curves("sghmc-mnist"),
    notes=NOTES,
    in_words=MNIST_EPOCHS.in_words,
)
FASHION = Experiment(
    name="sghmc-fashion",
    title="SGHMC, SGLD and optimizers on Fashion-MNIST (ChenReport, Figure 7a)",
    setting=SETTING
    + "800 epochs, of which 100 are warm-up; SGHMC: learning rate 1e-6, momentum decay 0.01; SGLD: 1e-5; "
    "SGD: 1e-5; SGD with Nesterov's momentum: 1e-6, decay 0.01.",
    cases=partial(cases, "fashion-mnist", FASHION_EPOCHS, (1e-6, 1e-5, 1e-5, 1e-6), {HMC: 14.0}),
    groups=GROUPS,
    judge=partial(judge, 13.0),
    draw=learning_curves("sghmc-fashion"),
    notes=FASHION_NOTES,
    in_words=FASHION_EPOCHS.in_words,
)
