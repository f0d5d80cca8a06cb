"""Scripts about inputs: tables, archives, settings, targets."""

import io
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.reliability.fits import Answer, here, run
from benchmarks.reliability.promised_files import refused
from benchmarks.reliability.promises import Check, Outcome, all_of

SHORT = ("--hidden", "2", "--chains", "2", "--warmup", "10", "--draws", "10", "--quiet")


def _outcome(call: Callable[[], Any]) -> Outcome:
    """A result or an error of the library; other exceptions are not as promised."""
    from ergonet._errors import ErgonetError

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call()
        except ErgonetError as error:
            return Outcome(str(error), is_kept=True)
        except Exception as error:  # noqa: BLE001  whatever a person would see
            return Outcome(f"{type(error).__name__}: {error}", is_kept=False)
    return Outcome("works", is_kept=True)


def _arrays() -> dict[str, dict[str, np.ndarray]]:
    rows = np.random.default_rng(0).normal(size=(20, 2))
    y = rows.sum(axis=1)
    return {
        "complex": {"x": rows.astype(complex), "y": y},
        "structured": {"x": np.zeros(20, [("a", float), ("b", float)]), "y": y},
        "void": {"x": np.zeros((20, 2), "V8"), "y": y},
        "no columns": {"x": np.zeros((20, 0)), "y": y},
        "big-endian": {"x": rows.astype(">f8"), "y": y.astype(">f8")},
    }


def _odd_tables(folder: Path) -> Outcome:
    outcomes = list[tuple[str, Outcome]]()
    (folder / "digits.csv").write_text("a,y\n" + "\n".join(f"{i},{'9' * 400}" for i in range(20)), encoding="utf-8")
    outcomes.append(("400 digits", _fitted("digits.csv", "--target", "y")))
    for name, arrays in _arrays().items():
        np.savez(folder / f"{name}.npz", allow_pickle=False, **arrays)
        outcomes.append((f"NPZ, {name}", _fitted(f"{name}.npz")))
    whole = (folder / "complex.npz").read_bytes()
    (folder / "damaged.npz").write_bytes(whole[: len(whole) // 2])
    outcomes.append(("NPZ, damaged", _fitted("damaged.npz")))
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"a": [[1.0, 2.0]] * 20, "y": list(range(20))}), folder / "lists.parquet")
    outcomes.append(("Parquet, lists", _fitted("lists.parquet", "--target", "y")))
    return all_of(outcomes)


def _fitted(*arguments: str) -> Outcome:
    """A fit works or is refused in one line."""
    try:
        answer = here("fit", *arguments, *SHORT, "--out", f"run-{arguments[0]}")
    except Exception as error:  # noqa: BLE001  whatever a person would see
        return Outcome(f"{type(error).__name__}: {error}", is_kept=False)
    return Outcome("works", is_kept=True) if answer.code == 0 else refused(answer)


def _odd_arguments(_: Path) -> Outcome:
    import jax.numpy as jnp

    import ergonet
    from ergonet import BayesianRegressor, Target

    x = np.random.default_rng(0).normal(size=(20, 2))
    cases: dict[str, Callable[[], Any]] = {
        "hidden=10**26": lambda: BayesianRegressor(hidden=10**26).fit(x, x[:, 0]),
        "an empty position": lambda: ergonet.sample(Target.from_logdensity(jnp.sum, jnp.zeros(0)), seed=0),
        "float16": lambda: Target.from_logdensity(jnp.sum, np.zeros(2, np.float16)),
        "objects": lambda: Target.from_logdensity(jnp.sum, np.array([object()])),
        "a density that is a number": lambda: Target.from_logdensity(3, jnp.zeros(2)),  # type: ignore[arg-type]
        "bias='x'": lambda: BayesianRegressor(bias="x").fit(x, x[:, 0]),
    }
    outcomes = [(name, _outcome(case)) for name, case in cases.items()]
    bias = dict(outcomes)["bias='x'"]
    outcomes[-1] = ("bias='x'", Outcome(bias.seen, bias.is_kept and bias.seen != "works"))
    return all_of(outcomes)


def _bomb(folder: Path) -> Outcome:
    """A small file that says that it contains 64 TiB."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (2**43, 1)})
    with zipfile.ZipFile(folder / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("x.npy", "y.npy"):
            archive.writestr(name, header.getvalue() + bytes(10**7))
    answer = run(["fit", "bomb.npz", *SHORT, "--out", "run"], folder, timeout=120.0)
    return refused(Answer(answer.returncode, "", answer.stdout))


def _small_things(folder: Path) -> Outcome:
    rng = np.random.default_rng(0)
    z, w = rng.normal(size=40), rng.normal(size=40)
    y = z + 0.1 * rng.normal(size=40)
    lines = [f"{1e9 + 1e-3 * a!r},{b!r},{c!r}" for a, b, c in zip(z.tolist(), w.tolist(), y.tolist(), strict=True)]
    (folder / "offset.csv").write_text("far,b,y\n" + "\n".join(lines), encoding="utf-8")
    answer = here("fit", "offset.csv", "--target", "y", *SHORT, "--out", "run-offset")
    record = (folder / "run-offset" / "preprocessing.json").read_text(encoding="utf-8") if answer.code == 0 else ""
    dropped = '"dropped": []' not in " ".join(record.split()) and "far" not in answer.err
    offset = Outcome(answer.err.strip()[:150] or "the column is used", not dropped)
    (folder / "escape.csv").write_text("a\x1b[31m,y\n" + "\n".join(f"{a},{a}" for a in range(20)), encoding="utf-8")
    said = here("fit", "escape.csv", "--target", "missing", *SHORT, "--out", "run-escape")
    escape = Outcome(repr(said.err.strip()[-80:]), "\x1b" not in said.err + said.out)
    w[0] = 1e12
    outlier = "b,y\n" + "\n".join(f"{b!r},{c!r}" for b, c in zip(w.tolist(), y.tolist(), strict=True))
    (folder / "outlier.csv").write_text(outlier, encoding="utf-8")
    told = here("fit", "outlier.csv", "--target", "y", *SHORT, "--out", "run-outlier")
    warned = [line for line in told.err.splitlines() if "1e+12" in line or "1e12" in line or "far from" in line]
    alone = Outcome(warned[0] if warned else "nothing is said", bool(warned))
    return all_of([("a column 1e9 + 1e-3 z", offset), ("terminal escapes", escape), ("an input of 1e12", alone)])


CHECKS = [
    Check("odd tables and archives", _odd_tables),
    Check("odd arguments and targets", _odd_arguments),
    Check("an archive that says that it is larger than the memory", _bomb),
    Check("far columns, terminal escapes, outliers", _small_things),
]
