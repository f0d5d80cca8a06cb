"""The live view: a page that shows a run while it goes on, which a browser loads again every few seconds."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ergonet._errors import RunDirectoryError
from ergonet._figures import duration
from ergonet.draws.recorder import Chunk
from ergonet.inference.progress import WARM_START, AbstractProgress, Overall, Pace, Tick
from ergonet.report import wording
from ergonet.report.pages import fill, replace_page
from ergonet.report.traces import Traces
from ergonet.runs.claiming import is_page
from ergonet.runs.directory import REPORT, RunDirectory
from ergonet.target.contract import AbstractTarget

SECONDS_BETWEEN_PAGES = 2.0
LARGEST_SHARE = 0.02  # of the time that writing pages may take
REFRESH = "3"


class LivePage:
    """The page of a run, beside the run directory, which is in its place only once every chain has a draw.

    Attributes:
        path: the page.
    """

    def __init__(self, run: Path, tell: Callable[[str], object]):
        """Check the place.

        Args:
            run: the run directory.
            tell: tells the user, once, that the page could not be written.

        Raises:
            RunDirectoryError: there is a file of somebody else.
        """
        self.path = run.with_name(f"{run.name}-live.html")
        self._run, self._tell, self._is_told = run, tell, False
        if self.path.exists() and not is_page(self.path):
            raise RunDirectoryError(f"`{self.path}` was not written by Ergonet, so the live view does not replace it.")
        self.show("The fit begins.", refresh=REFRESH)

    def following(self, shown: AbstractProgress, target: AbstractTarget) -> "Following":
        """Progress reports that go to this page and to another place."""
        return Following(self, shown, Traces(target))

    def show(self, sentence: str, content: dict[str, Any] | None = None, *, refresh: str = "", link: str = "") -> None:
        """Write the page; if that fails, say so once and go on."""
        given: dict[str, Any] = {"share": 0, "jobs": [], "facts": [], "drawings": []}
        given |= {
            "title": f"Live view of {self._run.name}",
            "sentence": sentence,
            "link": link,
            "is_running": bool(refresh),
        }
        with self.harmless():
            given["written"] = time.strftime("%Y-%m-%d %H:%M:%S")
            replace_page(self.path, fill("live.html", given | (content or {}), refresh=refresh))

    @contextmanager
    def harmless(self) -> Generator[None]:
        """Tell the first error in the block and forget the others, because a page must not cost a run."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  whatever it is
            if not self._is_told:
                self._is_told = True
                self._tell(f"The live view `{self.path}` cannot be written, and the fit goes on without it: {error}")

    def finish(self) -> None:
        """Point to the report."""
        directory = RunDirectory(self._run)
        link = quote(f"{self._run.name}/{REPORT}")
        if directory.report.exists():
            self.show("The fit is complete.", refresh=f"{REFRESH}; url={link}", link=link)
        else:
            self.show(f"The fit is complete, without a report: `ergonet report {self._run}` writes it.")

    def fail(self) -> None:
        """Say that there is no report."""
        self.show("The fit ended before it had a report; the terminal says why.")


class Following(AbstractProgress):
    """Shows progress on a page and as another one does."""

    def __init__(self, page: LivePage, shown: AbstractProgress, traces: Traces):
        self._page, self._shown, self._traces = page, shown, traces
        self._ticks: dict[int, Tick] = {}
        self._num_jobs = self._chains = 1
        self._pace, self._due = Pace(), 0.0

    def begin(self, num_jobs: int, chains_per_job: int) -> None:
        self._shown.begin(num_jobs, chains_per_job)
        self._num_jobs, self._chains = num_jobs, chains_per_job
        self._page.show("The programs are being compiled.", refresh=REFRESH)

    def say(self, message: str) -> None:
        self._shown.say(message)

    def watch(self, chunk: Chunk) -> None:
        self._shown.watch(chunk)
        if not chunk.fault:
            with self._page.harmless():
                self._traces.add(chunk)

    def tick(self, tick: Tick) -> None:
        self._shown.tick(tick)
        if any(one.phase == WARM_START != tick.phase for one in self._ticks.values()):
            self._ticks = {}
        self._ticks[tick.job] = tick
        began = time.monotonic()
        if began >= self._due:
            self._show(f"The fit is going on: {Overall.of(self._ticks.values(), self._num_jobs).phase}.")
            now = time.monotonic()
            self._due = now + max(SECONDS_BETWEEN_PAGES, (now - began) / LARGEST_SHARE)

    def end(self) -> None:
        self._shown.end()
        if self._ticks:
            self._show("Sampling has ended; the predictions are being scored, and the report is being written.")

    def _show(self, sentence: str) -> None:
        with self._page.harmless():
            one = Overall.of(self._ticks.values(), self._num_jobs)
            left = self._pace.left(one, now=time.monotonic())
            facts = [
                ("Done", f"{100 * one.done / one.total:.0f} % of {wording.plural(one.total, 'transition')}"),
                (f"Time{one.aim or ' left'}", "about " + duration(left) if left is not None else "not known yet"),
                ("Divergences", one.diverged),
            ]
            facts = [*([] if one.phase == WARM_START else facts), ("Gradients", wording.grouped(float(one.gradients)))]
            noun = "Chain" if self._chains == 1 else "Batch"
            jobs = [
                {"name": f"{noun} {job}", "share": 100 * tick.done / tick.total, "text": _figures(tick)}
                for job, tick in sorted(self._ticks.items())
            ]
            content = {"facts": facts, "jobs": jobs, "drawings": self._traces.drawings()}
            self._page.show(sentence, content, refresh=REFRESH)


def _figures(tick: Tick) -> str:
    if tick.detail:
        return tick.detail if tick.phase != WARM_START else f"{WARM_START}: {tick.detail.partition(', ')[2]}"
    accepted = "" if tick.acceptance is None else f", acceptance {tick.acceptance:.2f}"
    return f"{tick.phase}: {tick.done} of {tick.total}, step size {tick.step_size:.3g}{accepted}"
