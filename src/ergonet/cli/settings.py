"""Settings of a fit: what they are, their ranges, and how defaults, a file and options are put together.

Nothing here needs JAX: impossible settings are refused at once.
"""

import dataclasses
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from ergonet._errors import SettingError, suggest
from ergonet.cli.defaults import BUILT_IN, GENERAL

Table = Mapping[str, Any]
NAMED = ("prior", "likelihood", "kernel")
_LARGEST_SEED = 2**32 - 1


@dataclass(frozen=True)
class DataSettings:
    """`[data]`: what is learned from.

    Attributes:
        source: a file, or the name of a built-in data set.
        target: columns to predict; built-in sets have their own.
        test_fraction: share of the rows that is held out, in [0, 1).
        test_file: test rows of their own.
        task: `classification` or `regression`; None: told from the target.
        one_hot: whether columns of categories become 0/1 columns.
        folder: where built-in image sets find their files; None: what the environment variable ERGONET_DATA says.
        fetch: whether built-in image sets are downloaded instead.
    """

    source: str = ""
    target: tuple[str, ...] = ()
    test_fraction: float = 0.2
    test_file: str | None = None
    task: str | None = None
    one_hot: bool = False
    folder: str | None = None
    fetch: bool = False

    @classmethod
    def from_table(cls, table: Table) -> "DataSettings":
        """Checked settings; raises `SettingError`."""
        given = dict(table)
        for name in ("source", "test_file", "task", "folder"):
            if given.get(name) is not None and not isinstance(given[name], str):
                raise _refuse("data", name, "text", given[name])
        target = given.get("target", ())
        names = [target] if isinstance(target, str) else target
        if not isinstance(names, list | tuple) or not all(isinstance(one, str) for one in names):
            raise _refuse("data", "target", "the name of a column, or a list of them", target)
        fraction = given.get("test_fraction", cls.test_fraction)
        if not _is_number(fraction) or not 0 <= fraction < 1:
            raise _refuse("data", "test_fraction", "at least 0 and below 1", fraction)
        for name in ("one_hot", "fetch"):
            _flag("data", name, given.get(name, False))
        return cls(**{**given, "target": tuple(names), "test_fraction": float(fraction)})


@dataclass(frozen=True)
class NetworkSettings:
    """`[network]`: a multilayer perceptron.

    Attributes:
        hidden: units of each hidden layer; none for a linear model.
        activation: by name.
        bias: whether layers have biases.
    """

    hidden: tuple[int, ...] = (50,)
    activation: str = "tanh"
    bias: bool = True

    @classmethod
    def from_table(cls, table: Table) -> "NetworkSettings":
        """Checked settings; raises `SettingError`."""
        given = dict(table)
        hidden = given.get("hidden", cls.hidden)
        units = [hidden] if isinstance(hidden, int) else hidden
        if not isinstance(units, list | tuple) or not all(_is_integer(one, 1) for one in units):
            raise _refuse("network", "hidden", "whole numbers of at least 1, such as 35 or 20,20", hidden)
        if not isinstance(given.get("activation", ""), str):
            raise _refuse("network", "activation", "text", given["activation"])
        _flag("network", "bias", given.get("bias", cls.bias))
        return cls(**{**given, "hidden": tuple(units)})


@dataclass(frozen=True)
class RunSettings:
    """`[run]`: chains.

    Attributes:
        num_chains: independent chains, at least 1.
        num_warmup: transitions of each that tune the kernel, at least 0.
        num_draws: kept draws of each, at least 1, after thinning.
        thin: transitions for each kept draw, at least 1.
        seed: of the split and of the chains, 0 to 2^32 - 1.
        devices: workers (CPU) or accelerators; None: all.
        time_limit: seconds, above 0; None: no limit.
    """

    num_chains: int = 4
    num_warmup: int = 1000
    num_draws: int = 1000
    thin: int = 1
    seed: int = 0
    devices: int | None = None
    time_limit: float | None = None

    @classmethod
    def from_table(cls, table: Table) -> "RunSettings":
        """Checked settings; raises `SettingError`."""
        given = dict(table)
        least = {"num_chains": 1, "num_warmup": 0, "num_draws": 1, "thin": 1, "seed": 0, "devices": 1}
        for name, smallest in least.items():
            if given.get(name) is not None and not _is_integer(given[name], smallest):
                raise _refuse("run", name, f"a whole number of at least {smallest}", given[name])
        if given.get("seed", 0) > _LARGEST_SEED:
            raise _refuse("run", "seed", f"at most {_LARGEST_SEED}", given["seed"])
        limit = given.get("time_limit")
        if limit is not None:
            if not _is_number(limit) or limit <= 0:
                raise _refuse("run", "time_limit", "a number of seconds above 0", limit)
            given["time_limit"] = float(limit)
        return cls(**given)


@dataclass(frozen=True)
class Settings:
    """All settings of a fit; `prior`, `likelihood` and `kernel` are a `name` with that one's own arguments.

    `prior` may instead hold a table for each pattern of leaf paths, such as `[prior."layers.0.*"]`.
    """

    data: DataSettings
    network: NetworkSettings
    run: RunSettings
    prior: Table = field(default_factory=dict)
    likelihood: Table = field(default_factory=dict)
    kernel: Table = field(default_factory=dict)

    @classmethod
    def from_table(cls, table: Table) -> "Settings":
        """Settings from nested tables.

        Raises:
            SettingError: a table or setting is not known, or a value is out of its range.
        """
        check_names(table)
        return cls(
            data=DataSettings.from_table(table.get("data", {})),
            network=NetworkSettings.from_table(table.get("network", {})),
            run=RunSettings.from_table(table.get("run", {})),
            **{name: dict(table.get(name, {})) for name in NAMED},
        )

    def to_table(self) -> dict[str, Any]:
        """Nested tables that `from_table` takes back, without what is None."""
        plain = {name: dataclasses.asdict(getattr(self, name)) for name in ("data", "network", "run")}
        named = {name: dict(getattr(self, name)) for name in NAMED}
        order = ("data", "network", "prior", "likelihood", "kernel", "run")
        return {name: _without_none((plain | named)[name]) for name in order}


OPTIONS = {
    ("data", "source"): "DATA",
    ("data", "folder"): "--data",
    ("run", "num_chains"): "--chains",
    ("run", "num_warmup"): "--warmup",
    ("run", "num_draws"): "--draws",
    ("prior", "name"): "--prior",
    ("prior", "scale"): "--prior-scale",
    ("likelihood", "name"): "--likelihood",
    ("likelihood", "noise"): "--noise",
    ("kernel", "name"): "--kernel",
}
_RECORDS = {"data": DataSettings, "network": NetworkSettings, "run": RunSettings}


def check_names(table: Table) -> None:
    """Refuse tables and settings that do not exist, with the nearest names.

    Raises:
        SettingError: the first that is not known, or a value where a table belongs.
    """
    known_tables = (*_RECORDS, *NAMED)
    for name, settings in table.items():
        if name not in known_tables:
            raise SettingError(f"There is no table [{name}] of settings. {suggest(name, known_tables)}")
        if not isinstance(settings, Mapping):
            example = f'[{name}] with name = "{settings}"' if name in NAMED else f"[{name}]"
            raise SettingError(f"`{name}` must be a table, such as {example}, got {settings!r}.")
        if name in _RECORDS:
            known = [one.name for one in dataclasses.fields(_RECORDS[name])]
            for key in settings:
                if key not in known:
                    raise SettingError(f"[{name}] has no setting `{key}`. {suggest(key, known)}")


def read_settings_file(path: str | PathLike[str]) -> dict[str, Any]:
    """The tables of a settings file.

    Raises:
        SettingError: it is not there, is not TOML, or holds a table or setting that is not known.
    """
    file = Path(path)
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise SettingError(f"`--settings`: there is no file {str(file)!r}.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"`--settings`: {str(file)!r} cannot be read: {error}.") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingError(f"`--settings`: {str(file)!r} is not TOML: {error}.") from error
    try:
        check_names(table)
    except SettingError as error:
        raise SettingError(f"{file}: {error}") from error
    return table


def resolve(source: str | None, file: Table, options: Table) -> Settings:
    """Defaults, overridden by those of a built-in data set, by a file, by options.

    Args:
        source: a file or the name of a built-in set; None: what the settings file says.
        file: tables of a settings file; empty for none.
        options: tables of options that were given.

    Raises:
        SettingError: nothing to learn from, or a setting that cannot be.
    """
    source = source if source is not None else file.get("data", {}).get("source")
    if not source:
        raise SettingError(
            "There is nothing to learn from: give DATA, a file or a built-in name (`ergonet datasets` lists them)."
        )
    table = merge(GENERAL, BUILT_IN.get(str(source), {}))
    patterns, asked = file.get("prior", {}), options.get("prior", {})
    if isinstance(patterns, Mapping) and _has_patterns(patterns) and asked and "name" not in asked:
        raise SettingError(
            f"`--prior-scale` cannot change the priors of {', '.join(map(repr, patterns))} in the settings file. Set "
            f"their scale there, or give `--prior` too, which takes the place of them all."
        )
    # File and options first: a table of the file that has no name says more of what an option names.
    given = merge(file, merge(options, {"data": {"source": source}}))
    return Settings.from_table(merge(table, given))


def merge(below: Table, above: Table) -> dict[str, Any]:
    """Two layers of tables; a table with another `name`, or with patterns, replaces the one below it as a whole."""
    merged = {name: dict(settings) if isinstance(settings, Mapping) else settings for name, settings in below.items()}
    for name, settings in above.items():
        lower = merged.get(name, {})
        if not isinstance(settings, Mapping) or not isinstance(lower, Mapping):
            merged[name] = settings
            continue
        renamed = name in NAMED and "name" in settings and settings["name"] != lower.get("name", settings["name"])
        # Elsewhere a table in a table is a part of a kernel, no pattern.
        both = bool(lower) and bool(settings) and name == "prior"
        other_shape = both and _has_patterns(lower) != _has_patterns(settings)
        merged[name] = dict(settings) if renamed or other_shape else {**lower, **settings}
    return merged


def _has_patterns(settings: Table) -> bool:
    return any(isinstance(value, Mapping) for value in settings.values())


def _without_none(table: Table) -> dict[str, Any]:
    return {key: value for key, value in table.items() if value is not None}


def _is_integer(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _flag(table: str, name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise _refuse(table, name, "true or false", value)


def _refuse(table: str, name: str, wanted: str, value: Any) -> SettingError:
    option = OPTIONS.get((table, name), f"--{name.replace('_', '-')}")
    return SettingError(f"`{option}` (`{name}` in [{table}] of a settings file) must be {wanted}, got {value!r}.")
