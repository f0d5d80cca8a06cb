"""Altered files of run directories and of saved estimators: told, harmless, silent, or an uncaught exception."""

import json
import random
import shutil
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.reliability.fits import Answer, Fit, here
from benchmarks.reliability.section import Bench, Goal, Section, without_paths

ABOUT = """One file of a run directory, or of a saved estimator, is altered; then the directory is used: `predict`,
`diagnose` and `report`, or `load` and `predict`. *Error*: an error of the library, one sentence for a person. *Told*:
results with a warning. *Intact*: the same results as before. *Silent*: other results without a word. *Uncaught*: any
other exception. `report.html` is not altered, because nothing reads it."""
OUTCOMES = ("intact", "error", "told", "silent", "uncaught")  # the worst of several uses counts
VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1,
    2**70,
    1e308,
    float("nan"),
    "",
    "x",
    "../..",
    [],
    [1, "a"],
    {},
    {"a": 1},
)


Uses = dict[str, Callable[[Path], Any]]


@dataclass(frozen=True)
class Subject:
    """A folder that is altered.

    Attributes:
        name: in the table.
        folder: the intact folder.
        uses: what a person would do with it; results are compared.
    """

    name: str
    folder: Path
    uses: Uses


@dataclass(frozen=True)
class Used:
    """What one use of a folder gave: an outcome, a result, and what was said."""

    outcome: str
    result: Any
    said: str


def measure(bench: Bench) -> Section:
    """Alter files of every subject."""
    wanted = bench.size(1000, 80)
    subjects = _subjects(bench)
    intact = {subject.name: _intact(subject) for subject in subjects}
    numbers = random.Random(0)  # noqa: S311
    found = {(subject.name, kind): Counter[str]() for subject in subjects for kind in MUTATIONS}
    notes: list[str] = []
    for index in range(wanted):
        subject = subjects[index % len(subjects)]
        kind = list(MUTATIONS)[index // len(subjects) % len(MUTATIONS)]
        where, outcome, said = _try(subject, kind, intact[subject.name], numbers, bench.folder / "altered")
        found[subject.name, kind][outcome] += 1
        if outcome in ("silent", "uncaught"):
            notes.append(f"{outcome}: {subject.name}, {kind} of {where}: {said[:200]}")
        if index % 100 == 99:
            bench.say(f"    {index + 1} alterations")
    rows = [[*key, str(counts.total()), *(str(counts[one]) for one in OUTCOMES)] for key, counts in found.items()]
    total = sum(found.values(), Counter[str]())
    rows.append(["all", "", str(total.total()), *(str(total[one]) for one in OUTCOMES)])
    goals = [
        Goal("alterations", str(total.total()), str(wanted), total.total() == wanted),
        Goal.none_of("uncaught exceptions", total["uncaught"]),
        Goal.none_of("other results without a word", total["silent"]),
    ]
    head = ("folder", "alteration", "number", *OUTCOMES)
    return Section("Altered files", ABOUT, goals, head, rows, notes[:30])


def _intact(subject: Subject) -> dict[str, Used]:
    """What the uses of an intact folder give, without those that never give the same twice."""
    found = {name: (_use(use, subject.folder), _use(use, subject.folder)) for name, use in subject.uses.items()}
    for name, (first, _) in found.items():
        if first.outcome != "intact":
            raise RuntimeError(f"{subject.name}: {name} fails on an intact folder: {first.said}")
    return {name: first for name, (first, second) in found.items() if _equal(first.result, second.result)}


def _try(
    subject: Subject, kind: str, intact: dict[str, Used], numbers: random.Random, scratch: Path
) -> tuple[str, str, str]:
    """One alteration: the file, the outcome, and what was said."""
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(subject.folder, scratch)
    file = _chosen(scratch, MUTATIONS[kind].suits, numbers)
    MUTATIONS[kind].apply(file, numbers)
    outcome, said = "intact", ""
    for name, before in intact.items():
        now = _use(subject.uses[name], scratch)
        new = now.outcome
        if new == "intact" and not _equal(now.result, before.result):
            new = "told" if now.said != before.said else "silent"
        if OUTCOMES.index(new) > OUTCOMES.index(outcome):
            outcome, said = new, f"{name}: {without_paths(now.said, scratch)}"
    return str(file.relative_to(scratch)), outcome, said


def _chosen(folder: Path, suits: Callable[[Path], bool], numbers: random.Random) -> Path:
    """A file, in half of the cases one that is not of the many files of draws."""
    files = [file for file in sorted(folder.rglob("*")) if file.is_file() and file.name != "report.html"]
    few = [file for file in files if suits(file) and len(file.relative_to(folder).parts) < 3]
    many = [file for file in files if suits(file) and file not in few]
    return numbers.choice(few if not many or numbers.random() < 0.5 else many)


def _use(use: Callable[[Path], Any], folder: Path) -> Used:
    from ergonet._errors import ErgonetError

    said = StringIO()
    with warnings.catch_warnings(record=True) as caught, redirect_stderr(said), redirect_stdout(StringIO()):
        warnings.simplefilter("always")
        try:
            result = use(folder)
        except (ErgonetError, OSError, MemoryError) as error:
            return Used("error", None, f"{type(error).__name__}: {error}")
        except Exception as error:  # noqa: BLE001  whatever a person would see
            return Used("uncaught", None, f"{type(error).__name__}: {error}")
    told = [str(one.message) for one in caught if issubclass(one.category, UserWarning)]
    if isinstance(result, Answer):
        if result.code:
            return Used("error" if result.err.startswith("Error:") else "uncaught", None, result.err)
        return Used("intact", result.out, result.err)
    return Used("intact", result, " ".join([*told, said.getvalue().strip()]).strip())


def _equal(one: Any, other: Any) -> bool:
    return repr(one) == repr(other)  # NaN equals NaN


def _subjects(bench: Bench) -> list[Subject]:
    kernels = ["nuts"] if bench.is_quick else ["nuts", "gibbs", "sghmc"]
    made = list[Subject]()
    table = bench.folder / "new.csv"
    x = np.random.default_rng(0).normal(size=(40, 2))
    table.write_text("x0,x1\n" + "".join(f"{a:.3f},{b:.3f}\n" for a, b in x[:5]), encoding="utf-8")
    for kernel in kernels:
        Fit(kernel, num_draws=30, num_warmup=20).here(bench.folder / kernel)
        made.append(Subject(f"run with {kernel}", bench.folder / kernel, _uses_of_run(table)))
    return made + _estimators(bench.folder, x)


def _uses_of_run(table: Path) -> Uses:
    def predict(folder: Path) -> Answer:
        out = folder.parent / "predictions.csv"
        answer = here("predict", str(folder), str(table), "--out", str(out), "--overwrite")
        return Answer(answer.code, "" if answer.code else out.read_text(encoding="utf-8"), answer.err)

    def diagnose(folder: Path) -> Answer:
        answer = here("diagnose", str(folder))
        return Answer(answer.code, answer.out.replace(str(folder), ""), answer.err)

    def report(folder: Path) -> Answer:
        answer = here("report", str(folder))
        page = "" if answer.code else (folder / "report.html").read_text(encoding="utf-8")
        return Answer(answer.code, page.replace(str(folder), ""), answer.err)

    return {"predict": predict, "diagnose": diagnose, "report": report}


def _estimators(folder: Path, x: np.ndarray) -> list[Subject]:
    import ergonet

    short = {"hidden": (3,), "num_chains": 2, "num_warmup": 20, "num_draws": 20, "random_state": 0, "devices": 1}
    targets = {
        ergonet.BayesianClassifier: np.where(x[:, 0] > 0, "yes", "no"),
        ergonet.BayesianRegressor: x[:, 0] - x[:, 1] ** 2,
    }
    made = list[Subject]()
    for kind, y in targets.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kind(**short).fit(x, y).save(folder / kind.__name__)
        uses = {"predict": _predicting(kind, x[:5])}
        made.append(Subject(f"saved {kind.__name__}", folder / kind.__name__, uses))
    return made


def _predicting(kind: Any, x: np.ndarray) -> Callable[[Path], Any]:
    def use(folder: Path) -> Any:
        fitted = kind.load(folder)
        found = {"prediction": np.asarray(fitted.predict(x)).tolist(), "diagnostics": dict(fitted.diagnostics_)}
        if hasattr(fitted, "predict_proba"):
            found["probabilities"] = np.asarray(fitted.predict_proba(x)).tolist()
        return found

    return use


@dataclass(frozen=True)
class Mutation:
    """A way to alter a file, and which files it suits."""

    suits: Callable[[Path], bool]
    apply: Callable[[Path, random.Random], None]


def _flip(file: Path, numbers: random.Random) -> None:
    data = bytearray(file.read_bytes())
    data[numbers.randrange(len(data))] ^= 1 << numbers.randrange(8)
    file.write_bytes(data)


def _cut(file: Path, numbers: random.Random) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: numbers.randrange(len(data))])


def _delete(file: Path, _: random.Random) -> None:
    file.unlink()


def _fill(file: Path, numbers: random.Random) -> None:
    file.write_bytes(numbers.randbytes(max(1, file.stat().st_size)))


def _replace_value(file: Path, numbers: random.Random) -> None:
    """Replace a value anywhere in a JSON file, or remove it."""
    content = json.loads(file.read_text(encoding="utf-8"))
    places = list(_places(content))
    if not places:
        file.write_text("[]", encoding="utf-8")
        return
    table, key = numbers.choice(places)
    if numbers.random() < 0.2:
        del table[key]
    else:
        table[key] = numbers.choice(VALUES)
    file.write_text(json.dumps(content), encoding="utf-8")


def _places(value: Any) -> list[tuple[Any, Any]]:
    inner = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
    return [*((value, key) for key, _ in inner), *(place for _, one in inner for place in _places(one))]


def _replace_line(file: Path, numbers: random.Random) -> None:
    """Replace the value of a line of a TOML file."""
    lines = file.read_text(encoding="utf-8").splitlines()
    chosen = numbers.choice([index for index, line in enumerate(lines) if "=" in line])
    value = numbers.choice(('"x"', "-1", "0", "1e308", "nan", "[]", "{}", "true", "2", '"relu"', "[[1]]"))
    lines[chosen] = f"{lines[chosen].partition('=')[0]}= {value}"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _replace_setting(file: Path, numbers: random.Random) -> None:
    (_replace_line if file.suffix == ".toml" else _replace_value)(file, numbers)


def _has_bytes(file: Path) -> bool:
    return file.stat().st_size > 0


MUTATIONS = {
    "flipped bit": Mutation(_has_bytes, _flip),
    "truncation": Mutation(_has_bytes, _cut),
    "deletion": Mutation(lambda _: True, _delete),
    "random bytes": Mutation(_has_bytes, _fill),
    "JSON value": Mutation(lambda file: file.suffix == ".json", _replace_value),
    "setting": Mutation(lambda file: file.suffix in (".toml", ".json"), _replace_setting),
}
