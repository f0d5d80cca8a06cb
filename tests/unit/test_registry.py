"""Every name stands for something of its kind, and names are known without importing what they stand for."""

import subprocess
import sys

import pytest

from ergonet._errors import SettingError
from ergonet._registry import REQUIRED, Entry, Registry
from ergonet.hamiltonian.registry import INTEGRATORS, METRICS
from ergonet.inference.registry import WARM_STARTS
from ergonet.models.registry import ACTIVATIONS, LIKELIHOODS, PARAMETRIZATIONS, PRIORS
from ergonet.samplers.registry import KERNELS, NOISE_MODELS, SCHEDULES
from ergonet.trajectory.registry import CRITERIA, SELECTIONS

REGISTRIES = (
    *(INTEGRATORS, METRICS, ACTIVATIONS, LIKELIHOODS, PARAMETRIZATIONS, PRIORS),
    *(KERNELS, NOISE_MODELS, SCHEDULES, CRITERIA, SELECTIONS, WARM_STARTS),
)
NEEDED = {"given": {"variance": 1.0}, "cyclical": {"period": 10}}
UNMADE = ("metric", "activation")  # from a position, and functions themselves


@pytest.mark.parametrize(
    ("registry", "name"),
    [(registry, name) for registry in REGISTRIES for name in registry.names()],
    ids=lambda one: getattr(one, "kind", one),
)
def test_every_name_makes_something_of_its_kind(registry, name):
    assert registry.describe()[name].endswith(".")
    if registry.kind in UNMADE:
        assert callable(registry.load(name))
        return
    missing = {key for key, default in registry.settings(name).items() if default is REQUIRED}
    settings = NEEDED.get(name, {})
    assert missing == set(settings)
    made = registry.make(name, settings)
    assert registry.resolve(made) is made
    if not settings:
        assert registry.resolve(name) == registry.resolve({"name": name}) == made


@pytest.mark.parametrize(
    "registry", [KERNELS, PRIORS, LIKELIHOODS, CRITERIA, SELECTIONS, SCHEDULES, METRICS, NOISE_MODELS]
)
def test_a_name_is_that_of_its_class(registry):
    others = {"diagonal-gradient": "gradientdiagonalmetric", "none": "nonoise"}
    for name in registry.names():
        plain = name.replace("-", "")
        found = registry.load(name).__name__.lower()
        assert found in {plain, f"{plain}hmc", f"{plain}metric", f"{plain}noise", others.get(name)}


def concrete(kind):
    """All classes below an abstract one that can be made."""
    below = {kind, *(one for child in kind.__subclasses__() for one in concrete(child))}
    return {one for one in below if not one.__abstractmethods__ and one.__module__.startswith("ergonet.")}


@pytest.mark.parametrize(
    ("registry", "others"),
    [(PRIORS, set()), (SELECTIONS, set()), (CRITERIA, set()), (SCHEDULES, set()), (NOISE_MODELS, set())],
    ids=lambda one: getattr(one, "kind", ""),
)
def test_every_class_of_a_kind_has_a_name(registry, others):
    known = {registry.load(name) for name in registry.names()}
    classes = {one for home in registry.homes for one in concrete(Entry(home).load())}
    assert {one.__name__ for one in classes - known} == others


def test_names_are_known_before_anything_is_imported():
    program = (
        "import sys\n"
        "from ergonet.hamiltonian.registry import METRICS\nfrom ergonet.models.registry import PRIORS\n"
        "from ergonet.samplers.registry import KERNELS\nfrom ergonet.trajectory.registry import CRITERIA\n"
        "assert 'nuts' in KERNELS and 'normal' in PRIORS and METRICS.listed() and CRITERIA.names()\n"
        "assert not {'jax', 'numpy'} & set(sys.modules)\n"
        "KERNELS.load('nuts')\n"
        "assert 'jax' in sys.modules\n"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr


def shape(size: float = 1.0, *, kind: str = "round", parts: tuple[int, ...] = ()) -> tuple[float, str, tuple[int, ...]]:
    """A shape.

    Args:
        size: in meters.
        kind: of shape.
        parts: of it.
    """
    return (size, kind, tuple(parts))


SHAPES: Registry[tuple] = Registry(
    "shape", {"plain": f"{__name__}:shape", "other": Entry(f"{__name__}:shape", tags=("odd",), about="Another.")}
)


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.setitem(sys.modules, __name__, sys.modules[shape.__module__])


def test_tags_and_lines_about_names():
    assert SHAPES.names() == ("plain", "other")
    assert SHAPES.names("odd") == ("other",)
    assert SHAPES.listed() == "plain or other"
    assert SHAPES.describe() == {"plain": "A shape.", "other": "Another."}
    assert SHAPES.settings("plain") == {"size": 1.0, "kind": "round", "parts": ()}
    assert SHAPES.make("plain", {"size": 2.0}) == (2.0, "round", ())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SHAPES.make("plan"), r"`shape='plan'` is not known\. Did you mean 'plain'\?"),
        (lambda: SHAPES.entry("plan", owner="Box"), r"`Box\(shape='plan'\)` is not known"),
        (lambda: SHAPES.make("plain", {"siz": 1}), "`shape` 'plain' has no setting 'siz'. Did you mean 'size'"),
        (lambda: SHAPES.make("plain", {"kind": 3}), "`kind` must be a name in quotes, such as 'round', got 3"),
        (lambda: SHAPES.make("plain", {"parts": "leaf"}), "`parts` must be a list, got 'leaf'"),
        (lambda: SHAPES.resolve(3), "`shape=3` is not known: give a name such as 'plain'"),
        (lambda: SHAPES.resolve({"size": 3}), "a table of a `name` and settings"),
    ],
)
def test_what_is_not_known_is_rejected_in_a_sentence(make, message):
    with pytest.raises(SettingError, match=message):
        make()
