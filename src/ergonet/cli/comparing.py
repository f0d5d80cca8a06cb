"""`ergonet compare` and `ergonet evidence`: runs by leave-one-out, by held-out rows, and by their evidence."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ergonet._errors import CapabilityError, DataError, ErgonetError, RunDirectoryError, SettingError, visible
from ergonet.cli.errors import errors_in_one_line
from ergonet.cli.options import Overwrite, Run
from ergonet.cli.outputs import check_file
from ergonet.runs.directory import EVALUATION, Fitted, RunDirectory

if TYPE_CHECKING:
    import numpy as np

    from ergonet.comparison import Comparison, Elpd
    from ergonet.datasets.dataset import Dataset
    from ergonet.draws.samples import Samples

_SMALLEST = 1e-37  # a probability of a class whose logarithm is taken


def compare(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN...", help="Run directories of the same rows.", show_default=False)
    ],
    *,
    waic: Annotated[bool, typer.Option("--waic", help="Also print WAIC.")] = False,
    exact: Annotated[
        bool, typer.Option("--exact", help="Fit again without each row whose importance weights are not reliable.")
    ] = False,
    with_evidence: Annotated[bool, typer.Option("--evidence", help="Also print the log evidence.")] = False,
    stack: Annotated[
        str | None,
        typer.Option("--stack", help="Folder to write: the runs, averaged by stacking weights.", metavar="DIR"),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option("--out", help="HTML page to write: the comparison, scores and settings.", metavar="FILE"),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Compare runs by how well they predict rows that were left out, with the error of each difference.

    Leave-one-out is estimated from the draws and needs the data of the fits, which must be the same rows. Held-out rows
    are compared if all runs have the same, and alone if training rows have weights. A difference within its error is
    labeled as noise.
    """
    with errors_in_one_line():
        if len(set(runs)) < max(len(runs), 2):
            raise SettingError("`ergonet compare` needs two or more different run directories.")
        if out is not None:
            check_file(Path(out), overwrite=overwrite)
        if stack is not None and Path(stack).exists() and not overwrite:
            raise RunDirectoryError(f"{stack!r} exists. Choose another folder for `--stack`, or add `--overwrite`.")
        entries = [_Entry.read(one) for one in runs]
        _require_same_rows(entries)
        found = [_compared(entries, "loo", exact=exact)]
        found += [_compared(entries, "waic", exact=False)] if waic else []
        found += _by_held_out_rows(entries)
        compared = [one for one in found if not isinstance(one, str)]
        if not compared:
            raise CapabilityError(" ".join([*map(str, found), "Fit the runs with a `--test-fraction` above 0."]))
        said = [str(one) for one in found]
        said += [_evidences(entries)] if with_evidence else []
        sys.stdout.write(visible("\n\n".join(said)) + "\n")
        if stack is not None:
            sys.stdout.write(visible(_stacked(compared[0], stack, overwrite=overwrite)) + "\n")
        if out is not None:
            from ergonet.cli.unfinished import record_of
            from ergonet.report.comparing import write_comparison

            records = {one.name: record_of(RunDirectory(Path(one.name))) for one in entries}
            sys.stdout.write(f"Page: {visible(str(write_comparison(found, records, out)))}\n")


def evidence(
    run: Run,
    *,
    seed: Annotated[int, typer.Option("--seed", help="Seeds the proposals.")] = 0,
) -> None:
    """Print the log evidence (log marginal likelihood) of a model with its standard error, by bridge sampling.

    Differences of two models of the same training rows are log Bayes factors. This needs the data of the fit. If the
    estimate is not to be trusted, the exit code is 1, and the sentence has the number that says so.
    """
    with errors_in_one_line():
        if seed < 0:
            raise SettingError(f"`--seed` must be at least 0, got {seed}.")
        from ergonet.cli import evidence as finding

        sys.stdout.write(f"{visible(finding.run(RunDirectory(Path(run)), seed=seed))}\n")


@dataclass(frozen=True)
class _Entry:
    """A run with its data."""

    name: str
    fitted: Fitted
    dataset: "Dataset"

    @staticmethod
    def read(path: str) -> "_Entry":
        """Read a run and its data, on which it is conditioned again."""
        directory = RunDirectory(Path(path))
        settings, preprocessing, model = directory.read_model()

        from ergonet.cli import fitting, loading
        from ergonet.draws.samples import load

        fitting.keep_compiled_programs()
        dataset = loading.reload_data(
            settings, preprocessing, lacking=f"{path!r} is compared on the rows to which it was fitted"
        )
        samples = load(directory.draws, target=fitting.condition(model, dataset))
        return _Entry(path, Fitted(settings, preprocessing, model, samples), dataset)

    @property
    def draws(self) -> "Samples":
        """The draws; raises `CapabilityError` if the run has a `fallback` in their place."""
        from ergonet.diagnostics.finding import FALLBACK  # which imports NumPy

        if fallback := self.fitted.samples.about.get(FALLBACK):
            raise CapabilityError(fallback["sentence"])
        return self.fitted.samples

    @property
    def rows(self) -> "np.ndarray":
        """Indices of the training rows in the file."""
        import numpy as np

        count, held = len(self.dataset.y_train), self.dataset.test_rows
        if self.fitted.settings.data.test_file is not None or not len(held):
            return np.arange(count)
        return np.setdiff1d(np.arange(max(count + len(held), int(held.max()) + 1)), held)

    def fit(self, x: "np.ndarray", y: "np.ndarray") -> Any:
        """Sample the posterior of other rows with the settings of the run."""
        from ergonet import sample
        from ergonet.assembly import build

        return sample(
            self.fitted.model.condition(x, y),
            build.kernel(self.fitted.settings),
            progress=False,
            **self.fitted.settings.run.arguments(),
        )

    def estimate(self, criterion: str, *, exact: bool) -> "Elpd":
        """LOO or WAIC in units of the table, exact where it is not reliable if that is wanted."""
        from ergonet import comparison
        from ergonet.comparison.sources import fitted

        found: Elpd = getattr(comparison, criterion)(self.draws)
        if exact:
            found = comparison.refit(found, self.fit, self.dataset.x_train, self.dataset.y_train)
        known = fitted(self.fitted)
        observed = None if found.observed is None else known.in_units(found.observed)
        return replace(found, pointwise=found.pointwise + known.log_slope(observed), observed=observed)

    def held_out(self) -> "Elpd | None":
        """The scores of the held-out rows, as the fit has stored them; None if there are none."""
        import numpy as np

        from ergonet.comparison import Elpd

        directory = RunDirectory(Path(self.name))
        if EVALUATION in directory.missing_results():
            return None
        arrays = directory.read(EVALUATION)
        if "truth" not in arrays:
            return None
        truth = np.asarray(arrays["truth"])
        if "probabilities" in arrays:
            chosen = np.asarray(arrays["probabilities"])[np.arange(len(truth)), truth]
            density = np.log(np.maximum(chosen, _SMALLEST))
        else:
            density = np.asarray(arrays["log_density"])
        observed = np.column_stack([arrays["test_rows"], truth])
        return Elpd("held-out rows", density.astype(np.float64), observed.astype(np.float64))


def _require_same_rows(entries: Sequence[_Entry]) -> None:
    first = entries[0]
    for other in entries[1:]:
        one, another = first.rows, other.rows
        are_as_many = len(first.dataset.y_train) == len(other.dataset.y_train)  # rows of weight 0 are left out
        if not are_as_many or len(one) != len(another) or (one != another).any():
            raise DataError(
                f"{first.name!r} and {other.name!r} were not fitted to the same rows ({len(one)} and {len(another)}, "
                "of the files' rows). Fit both with the same data, `--test-fraction` and `--seed`."
            )


def _compared(entries: Sequence[_Entry], criterion: str, *, exact: bool) -> "Comparison | str":
    """The comparison by a criterion of the training rows, or why it is left out."""
    from ergonet import comparison

    estimates = {}
    for one in entries:
        try:
            estimates[one.name] = one.estimate(criterion, exact=exact)
        except CapabilityError as error:
            return f"{criterion.upper()} is left out, for {one.name!r}: {error}"
    return comparison.compare(estimates)


def _by_held_out_rows(entries: Sequence[_Entry]) -> "list[Comparison | str]":
    """The comparison by held-out rows, or why there is none; empty if no run has any."""
    from ergonet import comparison

    found = {one.name: one.held_out() for one in entries}
    known = {name: one for name, one in found.items() if one is not None}
    if not known:
        return []
    if len(known) < len(found):
        return [f"Held-out rows are not compared: {', '.join(found.keys() - known.keys())} has none."]
    try:
        return [comparison.compare(known)]
    except DataError as error:
        return [f"Held-out rows are not compared: {error}"]


def _evidences(entries: Sequence[_Entry]) -> str:
    """The log evidence of each run, whose differences are log Bayes factors."""
    import numpy as np

    from ergonet.comparison.sources import fitted
    from ergonet.partition.evidence import evidence as estimate

    lines = ["Log evidence, nats; a difference is a log Bayes factor, and depends on the priors"]
    for one in entries:
        try:
            found = estimate(one.draws.require_target(), one.draws)
        except ErgonetError as error:
            lines.append(f"{one.name}  {error}")
            continue
        known = fitted(one.fitted)
        observed = known.in_units(one.dataset.y_train)
        weights = 1.0 if one.dataset.weights is None else one.dataset.weights
        value = found.value + float(np.sum(weights * known.log_slope(observed)))
        lines.append(f"{one.name}  {value:.2f} \N{PLUS-MINUS SIGN} {found.error:.2f}")
    return "\n".join(lines)


def _stacked(found: "Comparison", out: str, *, overwrite: bool) -> str:
    from ergonet.comparison import Stacked
    from ergonet.report.wording import plural

    stacked = Stacked.of(dict(zip(found.names, found.stacking.tolist(), strict=True)))
    stacked.save(out, overwrite=overwrite)
    return f"Stacked predictor of {plural(len(stacked.members), 'run')}, weighted by {found.method}: {out}"
