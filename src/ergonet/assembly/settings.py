"""The settings of a fit with their defaults, and the merging of defaults, a file and options.

Every setting is one field here, with its default, its check, its command-line option and its line in the documentation.
Nothing here needs JAX, so invalid settings are rejected at once.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ergonet._errors import LONGEST_SHOWN, SettingError, shown, suggest
from ergonet._registry import Registry
from ergonet.assembly import rules
from ergonet.assembly.builtin import BUILT_IN
from ergonet.assembly.default import NO_WARM_START
from ergonet.assembly.rules import Setting, Table, setting
from ergonet.datasets.kinds import INDICATOR, KINDS, ONE_HOT_LIMIT, REFUSE, TASKS
from ergonet.datasets.registry import DATASETS, NO_TRANSFORM, TARGET_TRANSFORMS
from ergonet.inference.registry import WARM_STARTS
from ergonet.models.registry import ACTIVATIONS, LIKELIHOODS, PRIORS
from ergonet.samplers.registry import KERNELS

_LARGEST_SEED = 2**32 - 1
BY_TABLE = "chosen from the data unless set"
CHAINS, ROWS = "chains", "rows"  # what devices and processes get


@dataclass(frozen=True)
class DataSettings:
    """`[data]`: the data."""

    source: str = setting(
        "", rules.text(), "CSV, Excel, Parquet, Arrow or NPZ file, or the name of a built-in data set", flag="DATA"
    )
    target: tuple[str, ...] = setting(
        (),
        rules.texts("the name of a column, or a list of them"),
        "Column to predict",
        form="repeat for several; built-in data sets have their own",
        metavar="COLUMN",
    )
    test_fraction: float = setting(0.2, rules.share(), "Fraction of the rows to hold out", metavar="FRACTION")
    test_file: str | None = setting(None, rules.text(), "File with separate test rows", metavar="FILE")
    task: str | None = setting(
        None,
        rules.text(*TASKS),
        "classification, regression or count",
        form="told from the target unless set",
        metavar="TASK",
    )
    target_transform: str | None = setting(
        None,
        rules.one_of(NO_TRANSFORM, *TARGET_TRANSFORMS.names()),
        "Monotone transform of the target that the network learns; predictions are transformed back",
        form=f"{NO_TRANSFORM} unless set",
        metavar="NAME",
    )
    drop: tuple[str, ...] = setting(
        (), rules.texts("the name of a column, or a list of them"), "Columns to leave out", metavar="NAME[,NAME]"
    )
    columns: tuple[str, ...] = setting(
        (), rules.texts("the name of a column, or a list of them"), "The only columns to use", metavar="NAME[,NAME]"
    )
    types: Mapping[str, str] | None = setting(
        None,
        rules.pairs("a table of columns and their kinds"),
        f"Kind of a column: {', '.join(KINDS)}, or ordinal:LOW,...,HIGH",
        form="repeat for several; told from the entries unless set",
        metavar="COLUMN=KIND",
    )
    missing: str = setting(
        INDICATOR,
        rules.one_of(INDICATOR, REFUSE),
        "What becomes of missing entries: the median, and another column that marks them, or an error",
        metavar=f"{INDICATOR}|{REFUSE}",
    )
    one_hot_limit: int = setting(
        ONE_HOT_LIMIT,
        rules.whole(1),
        "Most categories of a column that get a 0/1 column each; more share a learned embedding",
        metavar="COUNT",
    )
    log_beyond: float | None = setting(
        None,
        rules.at_least_zero(),
        "Standard deviations beyond which a scaled input grows by its logarithm; 0: nowhere",
        form="2 for the default network of a classification, else 0",
        metavar="SDS",
    )
    weights: str | None = setting(
        None,
        rules.text(),
        "Column with the weight of each row, a power of its likelihood",
        form="not an input; 1 for every row unless set",
        metavar="COLUMN",
    )
    folder: str | None = setting(
        None,
        rules.text(),
        "Folder with the files of mnist, fashion-mnist or cifar10",
        form="else ERGONET_DATA",
        flag="--data",
        metavar="DIR",
    )
    fetch: bool = setting(False, rules.switch(), "Download these data sets from OpenML instead", flag="--fetch")


@dataclass(frozen=True)
class NetworkSettings:
    """`[network]`: a multilayer perceptron."""

    hidden: tuple[int, ...] | None = setting(
        None,
        rules.units(),
        "Units of each hidden layer",
        form=f"35, or 20,20; none: linear; {BY_TABLE}",
        metavar="UNITS",
    )
    activation: str | None = setting(
        None, rules.text(*ACTIVATIONS.names()), f"One of {ACTIVATIONS.listed()}", form=BY_TABLE, metavar="NAME"
    )
    bias: bool = setting(True, rules.switch(), "Whether layers have biases")
    direct: bool = setting(False, rules.switch(), "Whether inputs are connected to the outputs directly, too")


@dataclass(frozen=True)
class RunSettings:
    """`[run]`: chains. Counts are None until the default for the table is known."""

    num_chains: int | Any = setting(
        None, rules.whole(1), "Independent chains", form=BY_TABLE, flag="--chains", metavar="COUNT"
    )
    num_warmup: int | Any = setting(
        None,
        rules.whole(0),
        "Warm-up transitions of each chain, which tune the kernel",
        form=BY_TABLE,
        flag="--warmup",
        metavar="COUNT",
    )
    num_draws: int | Any = setting(
        None, rules.whole(1), "Draws of each chain that are stored", form=BY_TABLE, flag="--draws", metavar="COUNT"
    )
    thin: int = setting(1, rules.whole(1), "Transitions per stored draw", metavar="COUNT")
    seed: int = setting(0, rules.whole(0, _LARGEST_SEED), "Seed of the split and of the chains", metavar="NUMBER")
    devices: int | None = setting(
        None, rules.whole(1), "Cores (or accelerators) to use", form="all unless set", metavar="COUNT"
    )
    divide: str = setting(
        CHAINS,
        rules.one_of(CHAINS, ROWS),
        "What each device gets: chains of its own, or a part of the rows of every gradient",
        metavar=f"{CHAINS}|{ROWS}",
    )
    warm_start: str | Mapping[str, Any] | None = setting(
        None,
        rules.named(NO_WARM_START, *WARM_STARTS.names()),
        f"What finds the starts of the chains: {NO_WARM_START}, {WARM_STARTS.listed()}",
        form=f"{BY_TABLE}; settings: a table in a file",
        metavar="NAME",
    )
    time_limit: float | None = setting(
        None,
        rules.above_zero("a number of seconds"),
        "Stop after this many seconds and keep the draws",
        metavar="SECONDS",
    )
    until_ess: float | None = setting(None, rules.above_zero(), "Stop at this ESS of predictions", metavar="ESS")
    until_rhat: float | None = setting(None, rules.above(1), "Stop at this R-hat of predictions", metavar="RHAT")
    until_mcse: float | None = setting(
        None, rules.above_zero(), "Stop at this MCSE of scaled predictions", metavar="MCSE"
    )
    until_score_mcse: float | None = setting(
        None, rules.above_zero(), "Stop at this MCSE of the mean log score of held-out rows", metavar="NATS"
    )
    until_minimum: int | None = setting(
        None,
        rules.whole(4),
        "Draws of each chain before the rule is first judged",
        metavar="COUNT",
    )
    baselines: bool = setting(
        True, rules.switch(), "Compare with linear regression and gradient boosting on the test rows"
    )

    def arguments(self) -> dict[str, Any]:
        """Chains, lengths, seed, starts, devices and stop rule, as arguments of `ergonet.sample`."""
        names = "num_chains", "num_warmup", "num_draws", "thin", "seed", "warm_start", "devices", "until"
        found = {name: getattr(self, name) for name in names}
        if self.divide == ROWS:
            from ergonet.target.shards import RowShards

            found["devices"] = RowShards(self.devices)
        return found

    @property
    def until(self) -> dict[str, Any] | None:
        """The settings of the stop rule; None: there is none."""
        found = {name: getattr(self, f"until_{name}") for name in ("ess", "rhat", "mcse", "score_mcse", "minimum")}
        return {name: value for name, value in found.items() if value is not None} or None


def _named(registry: Registry[Any], **settings: Setting) -> dict[str, Any]:
    """Metadata of a field that holds a table of a `name` and its settings; the settings given here become options."""
    return {"registry": registry, "settings": settings}


def _by_name(say: str, registry: Registry[Any], form: str = "") -> Setting:
    return Setting(f"{say}: {registry.listed()}", rules.text(*registry.names()), form, f"--{registry.kind}", "NAME")


@dataclass(frozen=True)
class ModelSettings:
    """Settings of a model and its sampler.

    `prior`, `likelihood` and `kernel` are tables with a `name` and the settings of that name; without a name, they
    apply to the default for the data and the network. `prior` may instead hold a table for each pattern of leaf paths,
    such as `[prior."layers.0.*"]`. In Python, objects may be given for all three.
    """

    network: NetworkSettings = field(default_factory=NetworkSettings)
    prior: Any = field(
        default_factory=dict,
        metadata=_named(
            PRIORS,
            name=_by_name("Prior of the weights", PRIORS, "settings: [prior] of a file"),
            scale=Setting(
                "Scale of the prior",
                rules.above_zero(),
                form="without --prior: of the output weights, or of all in the default network of a regression",
                flag="--prior-scale",
                metavar="NUMBER",
            ),
        ),
    )
    likelihood: Any = field(
        default_factory=dict,
        metadata=_named(
            LIKELIHOODS,
            name=_by_name("Distribution of the target", LIKELIHOODS, "chosen by the task unless set"),
            noise=Setting(
                "Known noise: a standard deviation in the unit of the target",
                rules.above_zero(),
                form="learned unless set",
                metavar="SD",
            ),
        ),
    )
    kernel: Any = field(
        default_factory=dict,
        metadata=_named(KERNELS, name=_by_name("Kernel", KERNELS, f"{BY_TABLE}; settings: [kernel] of a file")),
    )


@dataclass(frozen=True)
class Settings(ModelSettings):
    """All settings of a fit."""

    data: DataSettings = field(default_factory=DataSettings)
    run: RunSettings = field(default_factory=RunSettings)

    @classmethod
    def from_table(cls, table: Table) -> "Settings":
        """Settings from nested tables.

        Raises:
            SettingError: a table or setting is not known, or a value is out of its range.
        """
        check_names(table)
        checked = {name: _checked(name, table.get(name, {})) for name in RECORDS}
        return cls(
            data=DataSettings(**checked["data"]),
            network=NetworkSettings(**checked["network"]),
            run=RunSettings(**checked["run"]),
            **{name: dict(table.get(name, {})) for name in NAMED},
        )

    def to_table(self) -> dict[str, Any]:
        """Nested tables that `from_table` takes back, without what is None."""
        tables = {name: dataclasses.asdict(getattr(self, name)) for name in RECORDS}
        tables |= {name: dict(getattr(self, name)) for name in NAMED}
        return {name: {key: one for key, one in tables[name].items() if one is not None} for name in TABLES}


RECORDS = {"data": DataSettings, "network": NetworkSettings, "run": RunSettings}
NAMED = {one.name: one.metadata for one in dataclasses.fields(ModelSettings) if "registry" in one.metadata}
TABLES = ("data", "network", *NAMED, "run")


def every_setting() -> Iterator[tuple[str, str, Setting, Any]]:
    """Yield table, name, setting and default of every command-line option, in order."""
    for table in TABLES:
        if table in RECORDS:
            yield from ((table, name, one, default) for name, (one, default) in settings_of(table).items())
        else:
            yield from ((table, name, one, None) for name, one in NAMED[table]["settings"].items())


def settings_of(table: str) -> dict[str, tuple[Setting, Any]]:
    """The settings of a table with their defaults, by name."""
    return rules.settings_of(RECORDS[table])


def _checked(table: str, given: Table) -> dict[str, Any]:
    known = settings_of(table)
    return rules.read_table(
        RECORDS[table],
        given,
        lambda name: f"`{known[name][0].option(name)}` (`{name}` in [{table}] of a settings file)",
    )


def check_names(table: Table) -> None:
    """Reject unknown tables and settings, and suggest similar names.

    Raises:
        SettingError: a table or setting is unknown, or a value stands where a table belongs.
    """
    for name, settings in table.items():
        if name not in TABLES:
            raise SettingError(f"There is no table [{name[:LONGEST_SHOWN]}] of settings. {suggest(name, TABLES)}")
        if not isinstance(settings, Mapping):
            example = f'[{name}] with name = "..."' if name in NAMED else f"[{name}]"
            raise SettingError(f"`{name}` must be a table, such as {example}, got {shown(settings)}.")
        if name in RECORDS:
            for key in settings:
                if key not in settings_of(name):
                    raise SettingError(
                        f"[{name}] has no setting `{key[:LONGEST_SHOWN]}`. {suggest(key, settings_of(name))}"
                    )


def resolve(source: str | None, file: Table, options: Table) -> Settings:
    """Merge the defaults, the settings of a built-in data set, a file and options; later ones take precedence.

    Args:
        source: a file or the name of a built-in data set; None: taken from the settings file.
        file: tables of a settings file; may be empty.
        options: tables of the given options.

    Raises:
        SettingError: no data are given, or a setting is invalid.
    """
    source = source if source is not None else file.get("data", {}).get("source")
    if not source:
        raise SettingError(
            "No data: give DATA, a file or the name of a built-in data set (`ergonet datasets` lists them)."
        )
    patterns, given = file.get("prior", {}), options.get("prior", {})
    if isinstance(patterns, Mapping) and _has_patterns(patterns) and given and "name" not in given:
        raise SettingError(
            f"`--prior-scale` cannot change the priors of {', '.join(map(repr, patterns))} in the settings file. Set "
            f"their scale there, or also give `--prior`, which replaces all of them."
        )
    # File and options first: a table without a name in the file adds settings to the choice that an option names.
    chosen = merge(file, merge(options, {"data": {"source": source}}))
    settings = Settings.from_table(merge(BUILT_IN.get(str(source), {}), chosen))
    if settings.data.log_beyond is not None or source in DATASETS or settings.network.hidden is None:
        return settings  # for the default network, the task decides
    return dataclasses.replace(settings, data=dataclasses.replace(settings.data, log_beyond=0.0))


def merge(below: Table, above: Table) -> dict[str, Any]:
    """Merge two layers of tables; a table with another `name`, or with patterns, replaces the lower one entirely."""
    merged = {name: dict(settings) if isinstance(settings, Mapping) else settings for name, settings in below.items()}
    for name, settings in above.items():
        lower = merged.get(name, {})
        if not isinstance(settings, Mapping) or not isinstance(lower, Mapping):
            merged[name] = settings
            continue
        renamed = name in NAMED and "name" in settings and settings["name"] != lower.get("name", settings["name"])
        # Elsewhere, a table in a table is a component of a kernel and not a pattern.
        both = bool(lower) and bool(settings) and name == "prior"
        other_shape = both and _has_patterns(lower) != _has_patterns(settings)
        merged[name] = dict(settings) if renamed or other_shape else {**lower, **settings}
    return merged


def _has_patterns(settings: Table) -> bool:
    return any(isinstance(value, Mapping) for value in settings.values())


def in_words(name: str) -> str:
    """Describe the settings of a built-in data set in one line."""
    settings = Settings.from_table(BUILT_IN.get(name, {}))
    network, prior, run, kernel = settings.network, settings.prior, settings.run, settings.kernel
    parts = [] if network.hidden is None else [f"{'-'.join(map(str, network.hidden))} {network.activation or ''} units"]
    parts += [f"{prior['name']}({prior['scale']:g}) prior"] if prior else []
    counts = f"{run.num_chains} chains x ({run.num_warmup} + {run.num_draws})"
    parts += [f"{KERNELS.entry(kernel['name']).attribute}, {counts}"] if kernel else []
    return "; ".join(" ".join(part.split()) for part in parts) or "the default"
