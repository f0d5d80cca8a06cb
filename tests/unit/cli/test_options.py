"""Every setting of a fit is an option of the command, and its help lists every name that can be chosen."""

import json
import re
import subprocess
import sys
from typing import Any

import pytest

from ergonet.assembly.settings import TABLES, every_setting, resolve
from ergonet.models.registry import ACTIVATIONS, LIKELIHOODS, PRIORS
from ergonet.samplers.registry import KERNELS

PROGRAM = """
import json, os, sys
os.environ["COLUMNS"] = "200"
from typer.testing import CliRunner
from ergonet.cli import fitting
from ergonet.cli.main import app
resolved = []
def take(settings, **others):
    resolved.append(settings.to_table())
    return 0
fitting.run = take
answers = []
for arguments in json.load(sys.stdin):
    found = CliRunner().invoke(app, arguments)
    answers.append([found.exit_code, found.output, resolved.pop() if resolved else None])
print(json.dumps(answers))
"""
TEXTS = {str: "some", int: "3", float: "0.5", list[str]: "some"}
WRITTEN: dict[str, tuple[str, Any]] = {"hidden": ("7,8", [7, 8]), "target": ("some", ["some"])}
WRITTEN |= {name: ("some", ["some"]) for name in ("drop", "columns")}
WRITTEN |= {"types": ("a=b=date", {"a=b": "date"}), "missing": ("refuse", "refuse"), "divide": ("rows", "rows")}
WRITTEN |= {"target_transform": ("log10", "log10"), "until_rhat": ("1.5", 1.5), "until_minimum": ("30", 30)}


def run(*commands: tuple[str, ...]) -> list[Any]:
    """Exit code, output and settings of each, in one process, whose annotations nobody checks: Typer reads them."""
    answer = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=json.dumps(commands), capture_output=True, text=True, check=True
    )
    return json.loads(answer.stdout)


def option(name: str, setting: Any, default: Any) -> tuple[tuple[str, ...], Any]:
    """Arguments that give a setting another value, and the value."""
    flag = setting.option(name)
    if name == "source":
        return (), "table.csv"
    if setting.rule.option is bool:
        return (flag if not default else f"--no-{name}",), not default
    text, wanted = WRITTEN.get(name, (TEXTS[setting.rule.option], None))
    return (flag, text), wanted or setting.rule.option(text)


def test_every_setting_is_an_option():
    cases = [(table, name, *option(name, setting, default)) for table, name, setting, default in every_setting()]
    plain = resolve("table.csv", {}, {}).to_table()
    answers = run(("fit", "table.csv"), *(("fit", "table.csv", *arguments) for _, _, arguments, _ in cases))
    assert answers[0][2] == json.loads(json.dumps(plain))
    for (table, name, _, wanted), (code, output, found) in zip(cases, answers[1:], strict=True):
        assert code == 0, output
        assert found[table][name] == wanted
    assert set(TABLES) == {table for table, *_ in cases}


def test_helps_list_every_option_and_every_name():
    (_, fit, _), (_, check, _), (code, usage, _) = run(
        ("fit", "--help"), ("prior-check", "--help"), ("fit", "table.csv", "--hidden", "wide")
    )
    text = re.sub(r"-\s*\n\s*|\s+", lambda found: found[0].strip() or " ", fit)
    for registry in (KERNELS, PRIORS, LIKELIHOODS, ACTIVATIONS):
        assert registry.listed() in text
    for table, name, setting, _ in every_setting():
        flag = setting.option(name)
        assert flag in fit
        assert (flag in check) == (table in ("data", "network", "prior", "likelihood") or name in ("seed", "num_draws"))
    assert code == 2
    assert "'--hidden'" in usage


@pytest.mark.parametrize("name", ["BayesianClassifier", "BayesianRegressor"])
def test_estimators_document_every_parameter_and_every_name(name):
    import ergonet

    estimator = getattr(ergonet, name)
    text = " ".join(estimator.__doc__.split())
    for registry in (KERNELS, PRIORS, LIKELIHOODS, ACTIVATIONS):
        assert registry.listed() in text
    assert all(f" {one}: " in text for one in estimator().get_params())
