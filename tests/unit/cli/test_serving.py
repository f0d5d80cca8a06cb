"""`ergonet serve`: a real server and real clients, under load; bad requests; limits; a graceful stop."""

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from ergonet.cli import serving
from ergonet.cli.main import app
from ergonet.cli.serving import Service, application
from ergonet.datasets.tables import from_table
from ergonet.runs.directory import RunDirectory
from tests.runs import finish, write_killed

uvicorn = pytest.importorskip("uvicorn", reason="uvicorn is not installed")
pytest.importorskip("fastapi", reason="FastAPI is not installed")
MOST_ROWS, MOST_BYTES = 50, 20_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        finish(write_killed(folder))
    return folder


@pytest.fixture(scope="module")
def service(folder):
    return Service(RunDirectory(folder / "run").read_fitted(), MOST_ROWS)


@pytest.fixture(scope="module")
def address(service):
    made = application(service, most_bytes=MOST_BYTES, hosts=serving.LOOPBACK)
    server = uvicorn.Server(uvicorn.Config(made, log_level="warning"))
    with serving._listen("127.0.0.1", 0) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        yield listening.getsockname()[:2]
        server.should_exit = True
        thread.join(60)


def ask(address, path, body=None, headers=None) -> tuple[int, Any]:
    """Status and content of the answer."""
    connection = http.client.HTTPConnection(*address, timeout=60)
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    connection.request("GET" if body is None else "POST", path, data, headers or {"Content-Type": "application/json"})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, json.loads(content) if "json" in answer.getheader("Content-Type", "") else content.decode()


@pytest.mark.slow
def test_many_clients_get_the_predictions_of_the_command(address, folder, monkeypatch):
    monkeypatch.chdir(folder)
    table = pd.read_csv("table.csv")[["x", "y"]]
    table.loc[3] = [1e3, 0.0]
    table.to_csv("new.csv", index=False)
    arguments = ["predict", "run", "new.csv", "--out", "p.csv", "--overwrite", "--quantiles", "0.1,0.5"]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    expected = pd.read_csv("p.csv", keep_default_na=False)

    def client(number):
        rows = table.iloc[number : number + 3]
        body = {"rows": rows.to_dict("records") if number % 2 else rows.to_numpy().tolist(), "quantiles": [0.1, 0.5]}
        return number, ask(address, "/predict", body)

    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(client, list(range(28)) * 2))
    for number, (status, content) in answers:
        assert status == 200, content
        found = pd.DataFrame(content["rows"])
        wanted = expected.iloc[number : number + 3].reset_index(drop=True)
        for name in ("mean", "sd", "sd_epistemic", "q10", "q50"):
            np.testing.assert_allclose(found[name], wanted[name], rtol=1e-4, atol=1e-4)
        assert found["outside"].tolist() == [one.split("; ") if one else [] for one in wanted["outside"]]
        assert found["is_outside"].tolist() == [bool(one) for one in wanted["outside"]]


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        ({"rows": []}, 400, "A request takes 1 to 50 rows, got 0."),
        ({"rows": [[1, 2]] * 51}, 400, "A request takes 1 to 50 rows, got 51."),
        ({"rows": [[1, 2], [1]]}, 400, "Row 1 (counted from 0) has 1 entries; the fit had 2 columns."),
        ({"rows": [{"x": 1}]}, 400, "The request lacks 1 column of the training table: 'y'"),
        ({"rows": [{"x": 1, "y": "many"}]}, 400, "'many'"),
        ({"rows": [{"x": 1, "y": None}]}, 400, "Column 'y' of the request"),
        ({"rows": [[1, 2]], "quantiles": [2]}, 400, "`levels` must lie strictly between 0 and 1"),
        ({"rows": [[1, 2]], "quantiles": [0.5] * 30}, 400, "`quantiles` takes at most 20 probabilities"),
        ({"columns": [1, 2]}, 400, "`rows` is not as expected: Field required"),
        ({"rows": [{"x": [1]}]}, 400, "is not as expected"),
        (b"{", 400, "The body of the request is not JSON."),
        (b"[" * 3000, 400, ""),
        (b" " * 30_000, 413, "A request has at most 20000 bytes."),
    ],
    ids=str,
)
def test_a_bad_request_gets_a_sentence(address, body, status, sentence):
    found, content = ask(address, "/predict", body)
    assert found == status
    assert sentence in content["detail"]
    assert isinstance(content["detail"], str)


def test_it_describes_itself(address):
    status, content = ask(address, "/")
    assert status == 200
    assert (content["features"], content["targets"], content["task"]) == (["x", "y"], ["z"], "regression")
    assert "2-2-2" in content["model"]["network"]
    paths = ask(address, "/openapi.json")[1]["paths"]
    assert set(paths) == {"/", "/health", "/predict"}
    assert "swagger" in ask(address, "/docs")[1]
    assert ask(address, "/health") == (200, {"status": "ok"})


def test_other_names_of_this_machine_are_refused(address):
    """A web page cannot ask by a name of its own that leads here."""
    assert ask(address, "/health", headers={"Host": "attacker.example"})[0] == 400


def test_rows_pass_through_the_preprocessing_of_the_run(service):
    frame = pd.DataFrame({"city": ["Bern", "Rome"] * 20, "age": [*range(39), None], "z": np.arange(40.0)})
    preprocessing = from_table(frame, "z", task="regression", test_fraction=0.0).preprocessing
    rows = [{"city": "Rome", "age": 3}, {"city": "Bern"}, {"age": 5, "city": None}, {"city": "Bern", "age": None}]
    found = preprocessing.transform(serving._table(rows, preprocessing.feature_names))
    wanted = preprocessing.transform(pd.DataFrame({"city": ["Rome", "Bern", None, "Bern"], "age": [3, None, 5, None]}))
    np.testing.assert_array_equal(found, wanted)


def test_a_port_that_is_taken_is_an_error(folder, monkeypatch):
    monkeypatch.chdir(folder)
    with serving._listen("127.0.0.1", 0) as taken:
        found = CliRunner().invoke(app, ["serve", "run", "--port", str(taken.getsockname()[1])])
    assert found.exit_code == 1
    assert "cannot be used" in found.stderr


@pytest.mark.slow
def test_a_signal_lets_requests_finish(folder):
    process = subprocess.Popen(
        [sys.executable, "-c", "from ergonet.cli.main import main; main()", "serve", "run", "--port", "0"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ,
    )
    try:
        said = process.stdout.readline()
        port = int(said.split("/predict")[0].rpartition(":")[2])
        rows = {"rows": [[0.1, 0.2]] * 2000}
        with ThreadPoolExecutor(4) as pool:
            answers = [pool.submit(ask, ("127.0.0.1", port), "/predict", rows) for _ in range(4)]
            while not any(one.done() for one in answers):
                time.sleep(0.01)
            process.send_signal(signal.SIGTERM)
            for answer in answers:
                status, content = answer.result()
                assert status == 200
                assert len(content["rows"]) == 2000
        assert process.wait(60) == 143
        said = process.stderr.read()
        assert said.endswith("Stopped; requests in progress were answered.\n")
        assert "Traceback" not in said
    finally:
        process.kill()


def test_names_of_columns_outside_stay_whole(service, monkeypatch):
    preprocessing = service.fitted.preprocessing
    names = tuple(f"{name}; {name}" for name in preprocessing.encoded_names)
    monkeypatch.setattr(type(preprocessing), "encoded_names", names)
    x = np.full((1, len(names)), 1e3, np.float32)
    (row,) = service._predicted(x, None)
    assert row["outside"] == list(names)
    assert row["is_outside"]
