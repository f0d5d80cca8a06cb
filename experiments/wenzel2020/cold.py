"""Cold posteriors (Wenzel2020) on the digits and on two tables: does a temperature below 1 predict better?"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import ergonet
from ergonet import MLP, NUTS, BayesianNetwork, Samples, datasets, likelihoods, priors, tempered
from ergonet.comparison.scored import HeldOutScores, score_rows
from ergonet.comparison.sources import fitted
from ergonet.comparison.table import NATS
from ergonet.comparison.temperatures import TemperatureSweep
from experiments.pictures import OTHER, OURS, new_figure, save
from experiments.record import Case, Claim, Experiment, Quantity, Table
from experiments.sizes import Size

TEMPERATURES = (0.01, 0.1, 0.3, 1.0, 3.0)
IN_SMOKE = (0.1, 1.0)
FORMS = ("posterior", "likelihood")
KERNEL = NUTS(target_acceptance=0.9, max_doublings=8)
LINEAR = 10.0  # nats per row, beyond which a picture is logarithmic
TEST_SHARE = 0.5  # of the tables; the digits have their own rows
KNOWN_NOISE = 0.7  # of diabetes, in sds of the target: about the residual of linear regression

SCORE = Quantity("held-out log score, nats per row", 3)
ERROR = Quantity("error rate, or RMSE in sds", 4)
CALIBRATION = Quantity("calibration error", 4)
OF = {"log_score": SCORE, "error": ERROR, "calibration": CALIBRATION}
APART = {name: Quantity(f"{one.name.partition(',')[0]} minus that at T = 1", 4) for name, one in OF.items()}
APART_ERROR = {name: Quantity(f"error of the {one.name.partition(',')[0]} difference", 4) for name, one in OF.items()}
RHAT = Quantity("R-hat of predictions", 2)
GRADIENTS = Quantity("gradients per draw")


@dataclass(frozen=True)
class Problem:
    """Data and a network with N(0, 1) priors.

    Attributes:
        name: of the built-in data.
        units: of the hidden layer.
        bias: whether its layers have biases.
        num_rows: held-out rows, for the smallest difference that counts.
        noise: known standard deviation of a number's noise, in sds of the target; None: learned, if there is any.
    """

    name: str
    units: int
    bias: bool
    num_rows: int
    noise: float | None = None

    @property
    def title(self) -> str:
        """The data, and whether the noise is known."""
        return self.name if self.noise is None else f"{self.name} with known noise"

    def model(self, data: Any, size: Size) -> BayesianNetwork:
        """The network; classes are categories, and numbers have Gaussian noise."""
        outputs = len(data.preprocessing.classes)
        likelihood = likelihoods.Categorical() if outputs else likelihoods.Gaussian(noise=self.noise)
        sizes = (data.x_train.shape[1], size.units(self.units), outputs or 1)
        return BayesianNetwork(MLP(sizes, activation="tanh", bias=self.bias), priors.Normal(1.0), likelihood)


PROBLEMS = (
    Problem("digits", 35, bias=False, num_rows=500),
    Problem("breast-cancer", 20, bias=True, num_rows=285),
    Problem("diabetes", 20, bias=True, num_rows=221),
    Problem("diabetes", 20, bias=True, num_rows=221, noise=KNOWN_NOISE),
)
SMOKE_PROBLEMS = (PROBLEMS[0], PROBLEMS[2])  # classes, and numbers


def label(problem: Problem, temperature: float, form: str) -> str:
    """The label of a row; both forms are the same at T = 1."""
    which = "" if temperature == 1 else ", likelihood only" if form == "likelihood" else ", U / T"
    return f"{problem.title}, T = {temperature:g}{which}"


@cache
def scored(problem: Problem, temperature: float, form: str, size: Size, seed: int) -> tuple[HeldOutScores, float]:
    """Held-out scores and gradients of a draw; kept, because every temperature is compared with T = 1 row by row."""
    data = datasets.load(problem.name, test_fraction=TEST_SHARE, seed=0)
    target = problem.model(data, size).condition(data.x_train, data.y_train, reference=data.x_test)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # R-hat is in the table
        samples: Samples = ergonet.sample(
            tempered(target, temperature, form),
            KERNEL,
            num_chains=size.num_chains,
            num_warmup=size.num_warmup,
            num_draws=size.num_draws,
            seed=seed,
            progress=False,
        )
    gradients = samples.gradients["sampling"] / (samples.num_chains * samples.num_draws)
    return score_rows(fitted(samples), data.x_test, data.y_test), gradients


def measure(problem: Problem, temperature: float, form: str, run: Any) -> dict[str, float]:
    """The scores of a row, and their differences from T = 1; `run` is the size and the seed."""
    size, seed = run
    found, gradients = scored(problem, temperature, form, size, seed)
    sweep = TemperatureSweep(
        (temperature, 1.0) if temperature != 1 else (1.0,),
        (found, scored(problem, 1.0, FORMS[0], size, seed)[0]) if temperature != 1 else (found,),
    )
    values = {RHAT.name: found.max_rhat, GRADIENTS.name: gradients}
    for name, quantity in OF.items():
        values[quantity.name] = float(sweep.values(name)[0])
        if temperature != 1:
            values[APART[name].name] = float(sweep.differences(name)[0])
            values[APART_ERROR[name].name] = float(sweep.difference_errors(name)[0])
    return values


def rows(size: Size) -> list[tuple[Problem, float, str]]:
    """Problem, temperature and form of every row."""
    temperatures = IN_SMOKE if size.mode == "smoke" else TEMPERATURES
    return [
        (problem, temperature, form)
        for problem in (SMOKE_PROBLEMS if size.mode == "smoke" else PROBLEMS)
        for form in FORMS
        for temperature in temperatures
        if temperature != 1 or form == FORMS[0]
    ]


def cases(size: Size) -> list[Case]:
    """The rows."""
    return [Case(label(*row), lambda size, seed, row=row: measure(*row, (size, seed))) for row in rows(size)]


def judge(table: Table) -> Sequence[Claim]:
    """Whether a colder posterior predicts better, for each problem and form."""
    return [_of(table, problem, form) for form in FORMS for problem in _problems(table)]


def _problems(table: Table) -> list[Problem]:
    return [one for one in PROBLEMS if label(one, 1.0, FORMS[0]) in table.labels]


def _of(table: Table, problem: Problem, form: str) -> Claim:
    cold = [one for one in TEMPERATURES if one < 1 and label(problem, one, form) in table.labels]
    found = {one: (table.mean(label(problem, one, form), APART["log_score"].name), _error(table, problem, one, form))
             for one in cold}  # fmt: skip
    limit, least = limit_of(len(cold)), NATS / problem.num_rows
    better = [one for one, (gain, error) in found.items() if gain > max(limit * error, least)]
    is_none = all(gain + limit * error < least for gain, error in found.values())
    told = ", ".join(f"{one:g}: {gain:+.4f} \N{PLUS-MINUS SIGN} {error:.4f}" for one, (gain, error) in found.items())
    return Claim(
        f"{problem.title}, {'all of U tempered' if form == 'posterior' else 'only the likelihood tempered'}: a colder "
        "posterior has a better held-out log score than T = 1",
        True if better else False if is_none else None,
        f"log score minus that at T = 1, nats per row, by T: {told}; above {limit:.1f} errors and {NATS:.0f} nats over "
        f"all rows at {'T = ' + ', '.join(f'{one:g}' for one in better) if better else 'none'}",
    )


def _error(table: Table, problem: Problem, temperature: float, form: str) -> float:
    """Error of a mean difference: over rows, which are the same for all seeds, and between seeds."""
    place = label(problem, temperature, form)
    between = table.error(place, APART["log_score"].name)
    return float(np.hypot(table.mean(place, APART_ERROR["log_score"].name), np.nan_to_num(between)))


def limit_of(count: int) -> float:
    """How many errors a difference must exceed among so many."""
    from scipy.stats import norm

    return float(norm.isf(0.05 / 2 / max(count, 1)))


def draw(table: Table, folder: Path) -> Mapping[str, str]:
    """Draw the log score against the temperature, a panel for each problem."""
    file = "cold-posteriors.png"
    problems = _problems(table)
    figure, panels = new_figure(13.5, 3.7, columns=len(problems))
    for axes, problem in zip(panels, problems, strict=True):
        for form, color, style, shift in zip(FORMS, (OURS, OTHER), ("o-", "s--"), (0.96, 1.04), strict=True):
            known = [one for one in TEMPERATURES if label(problem, one, form) in table.labels]
            apart = [
                0.0 if one == 1 else table.mean(label(problem, one, form), APART["log_score"].name) for one in known
            ]
            errors = [0.0 if one == 1 else 2 * _error(table, problem, one, form) for one in known]
            named = "U / T" if form == "posterior" else "likelihood only"
            axes.errorbar(
                shift * np.array(known), apart, yerr=errors, fmt=style, color=color, ms=5, capsize=3, label=named
            )
        axes.axhline(0, color="black", lw=0.8, ls=":")
        if min(axes.get_ylim()) < -LINEAR:
            axes.set_yscale("symlog", linthresh=LINEAR)
        axes.set_xscale("log")
        axes.set_xticks(TEMPERATURES, [f"{one:g}" for one in TEMPERATURES])
        axes.minorticks_off()
        axes.set_xlabel("temperature T")
        axes.set_title(problem.title, fontsize=10)
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("log score minus that at T = 1, nats per row")
    panels[0].legend(frameon=False, fontsize=8)
    save(figure, folder / file)
    return {file: "Held-out log score minus that at T = 1 by temperature; above 0 is better; bars: two errors"}


EXPERIMENT = Experiment(
    name="cold-posteriors",
    title="Cold posteriors on the digits and on two tables (after Wenzel2020)",
    setting="Does a posterior at a temperature T below 1 predict better than Bayes' rule, T = 1, as Wenzel2020 found "
    "for deep networks on images? Here networks are small enough for NUTS, so that no bias of a sampler stands between "
    "the temperature and the scores. *U / T*: all of the potential, prior and likelihood, is divided by T, as "
    "there; *likelihood only*: the prior stays as it is. Predictions are those of the likelihood as it is. Digits: the "
    "first 500 rows train, the last 500 test, 64-35-10 tanh without biases. Breast cancer (284 and 285 rows, 30-20-2 "
    "tanh) and diabetes (221 and 221 rows, 10-20-1 tanh, Gaussian noise that is learned, or known to be "
    f"{KNOWN_NOISE:g} sds) are tables of scikit-learn, "
    "split in halves, always the same. N(0, 1) on every weight; NUTS with target acceptance 0.9 and at most 8 "
    "doublings; chains start from the prior, and every temperature has the same seeds.",
    cases=cases,
    groups={
        "Log score": (SCORE, APART["log_score"], APART_ERROR["log_score"]),
        "Error": (ERROR, APART["error"], APART_ERROR["error"]),
        "Calibration": (CALIBRATION, APART["calibration"], APART_ERROR["calibration"]),
        "Chains": (RHAT, GRADIENTS),
    },
    judge=judge,
    draw=draw,
    notes="Here, and unlike other pages, the errors of differences are paired over rows, with the Monte Carlo error of "
    "chains; a difference counts if it exceeds so many errors that 1 in 20 problems without an effect shows one, and 4 "
    "nats over all rows. There is no such gain if that many errors do not reach 4 nats at any colder temperature; what "
    "lies between is undecided. Where R-hat is above 1.1 the chains are in different modes, and the scores are "
    "those of their average.",
)
