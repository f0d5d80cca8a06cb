"""`ergonet serve`: predictions over HTTP from a run that is loaded once. FastAPI is imported when it is needed."""

import importlib
import socket
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ergonet._errors import CapabilityError, DataError, ErgonetError, SettingError, shown, visible
from ergonet.cli import recalibrating
from ergonet.cli.errors import errors_in_one_line
from ergonet.cli.options import Run
from ergonet.runs.directory import Fitted, RunDirectory

if TYPE_CHECKING:
    import numpy as np

    from ergonet.prediction.recalibration import ClassCalibration, Levels

MOST_ROWS, MOST_BYTES = 4096, 4 * 2**20  # of a request
MOST_AT_ONCE = 64  # requests; others are told to come back
MOST_LEVELS = 20
GRACE = 10  # seconds that requests have to finish after a signal
LOOPBACK = ("127.0.0.1", "localhost", "::1")

TITLE = "Predictions of a Bayesian neural network"
ABOUT = """`POST /predict` takes rows in the units of the training table. For numbers, it returns the mean, the
standard deviation with its parts from noise (`sd_aleatoric`) and from what the data leave open (`sd_epistemic`), and
quantiles; for classes, the label, its probabilities, and entropies in nats. `is_outside` says that an input lies
outside the range of the training rows, and `outside` names it: do not rely on a prediction there. `GET /` describes the
model.
"""


class Service:
    """A run, ready to predict."""

    def __init__(self, fitted: Fitted, most_rows: int, recalibration: "ClassCalibration | Levels | None" = None):
        """Read the draws, and compile the program for one row.

        Args:
            fitted: the run.
            most_rows: largest number of rows of a request.
            recalibration: of the predictions; None: they are those of the model.
        """
        from ergonet.execution.threads import num_cores
        from ergonet.prediction.predictive import Predictor
        from ergonet.prediction.units import UnitsPredictor

        self.fitted, self.most_rows, self._recalibration = fitted, most_rows, recalibration
        self._predictor = UnitsPredictor(Predictor(fitted.samples, fitted.model), fitted.preprocessing)
        self._turn = threading.BoundedSemaphore(num_cores())  # bounds the memory of predictions at the same time
        import numpy as np

        self._predicted(np.zeros((1, len(fitted.preprocessing.encoded_names)), np.float32), None)

    def describe(self) -> dict[str, Any]:
        """What the model is, and what it takes."""
        from ergonet.runs.facts import facts

        known = self.fitted
        found = facts(known.settings, known.preprocessing, known.model, known.samples)
        return {
            "task": known.preprocessing.task,
            "features": list(known.preprocessing.kept),
            "targets": list(known.preprocessing.target_names),
            "classes": [str(one) for one in known.preprocessing.classes],
            "model": {name: visible(str(one)) for name, one in found.items()},
        }

    def predict(self, rows: list[Any], levels: list[float] | None) -> list[dict[str, Any]]:
        """Predictions for rows, each an object by column name or a list in the order of the columns of the fit.

        Raises:
            DataError: there are no rows or too many, or a row cannot be used.
            SettingError: a level is not between 0 and 1.
        """
        if not 0 < len(rows) <= self.most_rows:
            raise DataError(f"A request takes 1 to {self.most_rows} rows, got {len(rows)}.")
        if levels is not None and len(levels) > MOST_LEVELS:
            raise SettingError(f"`quantiles` takes at most {MOST_LEVELS} probabilities, got {len(levels)}.")
        preprocessing = self.fitted.preprocessing
        if levels is not None and preprocessing.task == "classification":
            raise SettingError("`quantiles` are for numbers: this run predicts classes, whose probabilities are given.")
        x = preprocessing.transform(_table(rows, preprocessing.feature_names), argument="the request")
        with self._turn:
            return self._predicted(x, levels)

    def _predicted(self, x: "np.ndarray", levels: list[float] | None) -> list[dict[str, Any]]:
        from ergonet.cli.predicting import Columns, table_of
        from ergonet.runs.metrics import as_json

        columns = Columns(None if levels is None else tuple(levels), recalibration=self._recalibration)
        table = table_of(self._predictor, x, columns, self.fitted.preprocessing)
        found: list[dict[str, Any]] = as_json(table.to_dict(orient="records"))
        outside, names = self.fitted.preprocessing.outside(x), self.fitted.preprocessing.encoded_names
        for row, flags in zip(found, () if outside is None else outside, strict=False):
            row["outside"] = [name for name, is_outside in zip(names, flags, strict=True) if is_outside]
            row["is_outside"] = bool(row["outside"])
        return found


def _table(rows: list[Any], names: tuple[str, ...]) -> Any:
    """Rows of a request as a table, with missing entries where a row has none."""
    import pandas as pd

    for number, row in enumerate(rows):
        if isinstance(row, list) and len(row) != len(names):
            raise DataError(f"Row {number} (counted from 0) has {len(row)} entries; the fit had {len(names)} columns.")
    given = [dict(zip(names, row, strict=True)) if isinstance(row, list) else row for row in rows]
    table = pd.DataFrame.from_records(given)
    return table[[name for name in table.columns if name in names]]


def application(service: Service, *, most_bytes: int, hosts: tuple[str, ...] = ()) -> Any:
    """The application: `GET /`, `GET /health`, `POST /predict`, and the OpenAPI page at `/docs`.

    Args:
        service: the run.
        most_bytes: largest size of the body of a request.
        hosts: names under which clients may ask for it; empty: any.
    """
    fastapi, pydantic = _installed("fastapi"), importlib.import_module("pydantic")
    answers, errors = importlib.import_module("fastapi.responses"), importlib.import_module("fastapi.exceptions")
    entry = bool | int | float | str | None
    request = pydantic.create_model(
        "Request",
        rows=(
            list[dict[str, entry] | list[entry]],
            pydantic.Field(description="Rows: objects by column name, or lists in the order of the columns."),
        ),
        quantiles=(
            list[float] | None,
            pydantic.Field(default=None, description="Probabilities between 0 and 1; 0.05 and 0.95 unless given."),
        ),
        __config__=pydantic.ConfigDict(extra="forbid"),
    )
    app = fastapi.FastAPI(title=TITLE, description=ABOUT, version=_version())

    def refused(_request: Any, error: Exception) -> Any:
        return answers.JSONResponse({"detail": visible(str(error))}, status_code=400)

    def malformed(_request: Any, error: Any) -> Any:
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            return answers.JSONResponse({"detail": "The body of the request is not JSON."}, status_code=400)
        where = ".".join(str(one) for one in first["loc"][:3] if one != "body") or "the body"
        sentence = f'`{where}` is not as expected: {first["msg"]}. Send {{"rows": [{{"column": value, ...}}]}}.'
        return answers.JSONResponse({"detail": visible(sentence)}, status_code=400)

    app.add_exception_handler(ErgonetError, refused)
    app.add_exception_handler(errors.RequestValidationError, malformed)
    app.add_middleware(_Limit, most_bytes=most_bytes)
    if hosts:
        trusted = importlib.import_module("starlette.middleware.trustedhost").TrustedHostMiddleware
        app.add_middleware(trusted, allowed_hosts=list(hosts))

    def predict(body: Any) -> dict[str, Any]:
        return {"rows": service.predict(body.rows, body.quantiles)}

    predict.__annotations__["body"] = request
    app.post("/predict", summary="Predict rows")(predict)
    app.get("/", summary="Describe the model")(service.describe)
    app.get("/health", summary="Whether it answers")(lambda: {"status": "ok"})
    return app


class _Limit:
    """Refuses bodies that are too large, before they are parsed."""

    def __init__(self, app: Any, most_bytes: int):
        self._app, self._most = app, most_bytes

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body, more = b"", True
        while more and len(body) <= self._most:
            message = await receive()
            if message["type"] != "http.request":  # the client has left
                return
            body, more = body + message.get("body", b""), message.get("more_body", False)
        if len(body) > self._most:
            answers = importlib.import_module("starlette.responses")
            detail = f"A request has at most {self._most} bytes. Send fewer rows at a time."
            await answers.JSONResponse({"detail": detail}, status_code=413)(scope, receive, send)
            return
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def again() -> Any:
            return messages.pop() if messages else await receive()

        await self._app(scope, again, send)


def _installed(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise CapabilityError(f"Serving a run needs {name}. Install it: `pip install fastapi uvicorn`.") from error


def _version() -> str:
    from ergonet import __version__

    return __version__


def _listen(host: str, port: int) -> socket.socket:
    """A socket that listens; raises `SettingError` if the address cannot be used."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=128)
    except (OSError, OverflowError) as error:
        raise SettingError(
            f"`--host {shown(host)} --port {port}` cannot be used: {error}. Choose another port."
        ) from error


def _run(server: Any, listening: socket.socket) -> None:
    """Answer until a signal, in a thread of its own: the signals are the command's."""
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="server")
    thread.start()
    try:
        while thread.is_alive():
            thread.join(1.0)
    except KeyboardInterrupt as stop:
        raise type(stop)("Stopped; requests in progress were answered.") from stop
    finally:
        server.should_exit = True
        thread.join()


def serve(
    run: Run,
    *,
    host: Annotated[str, typer.Option("--host", help="Address to listen at.", metavar="ADDRESS")] = LOOPBACK[0],
    port: Annotated[int, typer.Option("--port", help="Port; 0: a free one.", metavar="PORT")] = 8000,
    most_rows: Annotated[int, typer.Option("--most-rows", help="Most rows of a request.", metavar="COUNT")] = MOST_ROWS,
    most_bytes: Annotated[
        int, typer.Option("--most-bytes", help="Most bytes of a request.", metavar="COUNT")
    ] = MOST_BYTES,
) -> None:
    """Serve predictions of a run over HTTP, as JSON, until Ctrl-C or SIGTERM; requests in progress are finished.

    POST rows to /predict: {"rows": [{"column": value, ...}], "quantiles": [0.05, 0.95]}. The page /docs describes the
    interface. There is no authentication: unless other machines are to ask, leave `--host` as it is.
    """
    with errors_in_one_line():
        for name, value in (("most-rows", most_rows), ("most-bytes", most_bytes)):
            if value < 1:
                raise SettingError(f"`--{name}` must be at least 1, got {value}.")
        uvicorn = _installed("uvicorn")
        directory = RunDirectory(Path(run))
        directory.check_version()
        listening = _listen(host, port)
        from ergonet.inference.compiled import keep_compiled_programs

        keep_compiled_programs()
        is_local = host in LOOPBACK
        service = Service(directory.read_fitted(), most_rows, recalibrating.read(directory))
        app = application(service, most_bytes=most_bytes, hosts=(*LOOPBACK, "[::1]") if is_local else ())
        config = uvicorn.Config(
            app,
            log_level="warning",
            limit_concurrency=MOST_AT_ONCE,
            timeout_graceful_shutdown=GRACE,
            server_header=False,
        )
        if not is_local:
            sys.stderr.write("Warning: everyone who can reach this address can ask for predictions.\n")
        address = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"
        sys.stdout.write(f"Serving {visible(run)} at {address}/predict; its description: {address}/docs\n")
        sys.stdout.flush()
        with listening:
            _run(uvicorn.Server(config), listening)
