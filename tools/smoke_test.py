"""Check that an installed wheel of Ergonet works: import it, sample a small density, and run the command.

Run it with the interpreter of an environment that has the wheel, but not the checkout, installed.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent


def check(*, ok: bool, what: str) -> None:
    """Print the result of a check, and stop if it failed."""
    print(f"{'ok  ' if ok else 'FAIL'} {what}")
    if not ok:
        sys.exit(1)


def check_import() -> None:
    """Check that the package comes from the wheel, has its type marker, and does not import heavy libraries."""
    import ergonet

    where = Path(str(ergonet.__file__)).resolve()
    check(ok=CHECKOUT / "src" not in where.parents, what="ergonet is imported from the installed wheel")
    check(ok=(where.parent / "py.typed").is_file(), what="the wheel carries py.typed")
    heavy = {"jax", "sklearn", "matplotlib", "pandas"} & set(sys.modules)
    check(
        ok=not heavy,
        what=f"`import ergonet` is light (loaded: {', '.join(sorted(heavy)) or 'nothing heavy'})",
    )


def check_sampling() -> None:
    """Sample a standard normal in two dimensions; check shape, finiteness and standard deviation."""
    import jax
    import jax.numpy as jnp

    import ergonet

    target = ergonet.Target.from_logdensity(lambda position: -0.5 * jnp.sum(position**2), jnp.zeros(2))
    samples = ergonet.sample(target, num_chains=2, num_warmup=300, num_draws=500, seed=1, progress=False)
    positions = jnp.asarray(samples.positions)
    check(ok=positions.shape == (2, 500, 2), what=f"draws have shape {positions.shape} (JAX {jax.__version__})")
    check(ok=bool(jnp.isfinite(positions).all()), what="draws are finite")
    spread = float(positions.std())
    check(ok=0.8 < spread < 1.2, what=f"standard deviation {spread:.3f}, expected about 1")


def check_command() -> None:
    """Run the console script in an empty folder."""
    command = Path(sys.executable).parent / "ergonet"
    for arguments, expected in ((["--help"], "fit"), (["datasets"], "digits")):
        with tempfile.TemporaryDirectory() as folder:
            answer = subprocess.run([command, *arguments], cwd=folder, capture_output=True, text=True, check=False)
        shown = f"`ergonet {' '.join(arguments)}` mentions {expected}"
        if answer.returncode != 0 or expected not in answer.stdout:
            print(answer.stdout, answer.stderr, sep="\n")
        check(ok=answer.returncode == 0 and expected in answer.stdout, what=shown)


def main() -> None:
    """Run the checks, cheapest first."""
    print(f"Python {sys.version.split()[0]}")
    check_import()
    check_command()
    check_sampling()


if __name__ == "__main__":
    main()
