"""The whole benchmark: `python -m benchmarks.run` writes docs/results/speed.md and speed.json beside it.

Takes about half an hour. `--quick` only shows that everything works, within a minute.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import options, page, startup
from benchmarks.problems import PROBLEMS, Problem
from benchmarks.rounds import (
    CONTESTANTS,
    WHOLE,
    best_peer,
    run_contestant,
    start_process,
    until_effective,
    whole_seconds,
    within,
)
from benchmarks.targets import COMPILED_TOO

FULL = {
    "rounds": 3,
    "num_warmup": 500,
    "num_draws": 500,
    "turns": 15,
    "steps": 1000,
    "effective": 400,
    "waits": len(CONTESTANTS),
}
SMOKE = {"rounds": 1, "num_warmup": 10, "num_draws": 10, "turns": 1, "steps": 20, "effective": 10, "waits": 1}


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmarks, write the results and print which targets are met."""
    parser = options.parser("Speed and size of Ergonet beside other samplers.", "speed.md and speed.json")
    parser.add_argument("--rounds", type=int, help=f"of all samplers, default {FULL['rounds']}")
    chosen = options.parsed(parser, arguments)
    settings = dict(SMOKE if chosen.quick else FULL)
    if chosen.rounds is not None:
        if chosen.rounds < 1:
            parser.error(f"`--rounds` must be at least 1, got {chosen.rounds}.")
        settings["rounds"] = chosen.rounds
    words = ["python -m benchmarks.run", *(["--quick"] if chosen.quick else [])]
    words += [f"--rounds {chosen.rounds}"] if chosen.rounds is not None else []
    record = measure(settings)
    record["about"] = page.describe(" ".join(words), quick=chosen.quick, settings=settings)
    goals = page.write(chosen.out / "speed.md", record)
    (chosen.out / "speed.json").write_text(json.dumps(record, indent=1), encoding="utf-8")
    for goal in goals:
        print(f"{'met    ' if goal.is_met else 'NOT MET'}  {goal.measured.median:6.2f}  {goal.what}")
    print(f"Written: {chosen.out / 'speed.md'}")


def measure(settings: dict[str, int]) -> dict[str, Any]:
    """Time imports, gradients and samplers, one process after another."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        problems = {key: make() for key, make in PROBLEMS.items()}
        for problem in problems.values():
            problem.save(folder / f"{problem.name}.npz")
        say("imports")
        imports = startup.measure(settings["turns"])
        gradients = {}
        for key in problems:
            say(f"gradients and steps, {key}")
            gradients[key] = _gradients(key, folder, settings)
        samplers: dict[str, list[dict[str, Any]]] = {one.module: [] for one in CONTESTANTS if one.is_present}
        longer: dict[str, list[dict[str, Any]]] = {module: [] for module in COMPILED_TOO}
        for turn in range(settings["rounds"]):
            for one in CONTESTANTS:
                if not one.is_present:
                    say(f"{one.title}: absent, `{one.requires}` is not installed")
                    continue
                say(f"round {turn + 1} of {settings['rounds']}: {one.title}")
                found = run_contestant(
                    one,
                    problems["digits"],
                    folder,
                    num_warmup=settings["num_warmup"],
                    num_draws=settings["num_draws"],
                    seed=turn,
                )
                samplers[one.module].append(found)
                say(f"    {found['run_seconds']:.1f} s, {found['effective_draws_per_second']:.1f} ESS / s")
            for module, found in _longer(samplers, problems["digits"], folder, settings["num_warmup"], turn).items():
                longer[module].append(found)
        waits = {}
        for one in [one for one in CONTESTANTS if one.is_present][: settings["waits"]]:
            say(f"from the start of the process to {settings['effective']} effective predictions: {one.title}")
            waits[one.module] = until_effective(
                one,
                problems["digits"],
                folder,
                settings["effective"],
                samplers[one.module][0],
                num_warmup=settings["num_warmup"],
            )
            say(f"    {waits[one.module]['process_seconds']:.1f} s")
    return {"imports": imports, "gradients": gradients, "samplers": samplers, "longer": longer, "waits": waits}


def _longer(
    samplers: dict[str, list[dict[str, Any]]], problem: Problem, folder: Path, num_warmup: int, turn: int
) -> dict[str, dict[str, Any]]:
    """Runs that take at most the time that the best peer took in this turn, by sampler; none without a peer."""
    best = best_peer(samplers, WHOLE, largest=True)
    if best is None:
        return {}
    seconds, found = whole_seconds(samplers[best[0].module][turn]), {}
    for one in [one for one in CONTESTANTS if one.module in COMPILED_TOO]:
        say(f"{one.title}, within {seconds:.1f} s")
        first = samplers[one.module][turn]
        found[one.module] = within(one, problem, folder, seconds, first, num_warmup=num_warmup, seed=turn)
        say(f"    {whole_seconds(found[one.module]):.1f} s, {found[one.module][WHOLE]:.1f} ESS / s")
    return found


def _gradients(name: str, folder: Path, settings: dict[str, int]) -> dict[str, Any]:
    out = folder / f"gradients-{name}.json"
    start_process(
        "benchmarks.gradients",
        *("--problem", str(folder / f"{name}.npz"), "--out", str(out)),
        *("--turns", str(settings["turns"]), "--steps", str(settings["steps"])),
        environment={"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},  # read when NumPy is imported
    )
    return json.loads(out.read_text(encoding="utf-8"))


def say(message: str) -> None:
    """Print a line of progress to stderr."""
    print(message, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
