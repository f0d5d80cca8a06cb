"""`ergonet new` and shell completion."""

import os
import re
import subprocess
import sys
import tomllib

import pytest
from typer.testing import CliRunner

from ergonet._errors import SettingError
from ergonet.assembly.settings import Settings, every_setting, resolve
from ergonet.assembly.settings_file import read_settings_file
from ergonet.cli import new
from ergonet.cli.main import app


def call(*arguments, code=0):
    found = CliRunner().invoke(app, list(arguments))
    assert found.exit_code == code, found.output
    return found


def test_given_settings_are_written_and_all_others_are_comments(tmp_path):
    file = tmp_path / "mine.toml"
    given = ("table.csv", "--target", "a b", "--target", "c", "--hidden", "20,20", "--prior", "normal", "--draws", "70")
    call("new", *given, "--out", str(file))
    found = read_settings_file(file)
    assert {name: table for name, table in found.items() if table} == {
        "data": {"source": "table.csv", "target": ["a b", "c"]},
        "network": {"hidden": [20, 20]},
        "prior": {"name": "normal"},
        "run": {"num_draws": 70},
    }
    assert resolve(None, found, {}).run.num_draws == 70
    lines = file.read_text().splitlines()
    for _, name, setting, _ in every_setting():
        assert any(line.lstrip("# ").startswith(f"{name} =") for line in lines)
        assert setting.say.split()[0] in file.read_text()
    assert max(map(len, lines)) <= 120


def test_defaults_in_comments_are_the_defaults():
    lines = [re.sub(r"^# (\w+ = .)", r"\1", line) for line in new.text({}).splitlines()]
    table = tomllib.loads("\n".join(lines))
    for name in ("network", "run"):
        assert table[name]
    assert Settings.from_table(table) == Settings.from_table({})


def test_files_are_replaced_on_request_only(tmp_path):
    file = str(tmp_path / "mine.toml")
    call("new", "--out", file)
    assert "exists already" in call("new", "--out", file, code=1).stderr
    call("new", "--out", file, "--overwrite")
    with pytest.raises(SettingError, match=r"must end in \.toml"):
        new.run({}, "mine.txt", overwrite=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("ergonet pr", {"predict", "prior-check"}),
        ("ergonet fit --quantity --ker", {"--kernel"}),
        ("ergonet fit a.csv --kernel m", {"mams", "mclmc", "mala"}),
        ("ergonet fit a.csv --warm-start ad", {"adam", "adam+mclmc"}),
        ("ergonet fit a.csv --likelihood neg", {"negative-binomial"}),
        ("ergonet fit a.csv --task c", {"classification", "count"}),
        ("ergonet reproduce kim", {"kim-mixture", "kim-moons", "kim-mnist"}),
    ],
)
def test_the_shell_completes_commands_options_and_values(words, expected):
    environment = {"_ERGONET_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    program = "import sys\nsys.argv[0] = 'ergonet'\nfrom ergonet.cli.main import main\nmain()"
    found = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert {line.split("\t")[0] for line in found.stdout.split()} == expected, found
