"""Rules for settings: one record per setting, from which its check, its option and its documentation are made."""

import math
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any

from ergonet._checks import LARGEST_COUNT, is_integer, is_number
from ergonet._errors import LONGEST_SHOWN, SettingError, shown, suggest

Table = Mapping[str, Any]
MOST_LAYERS, MOST_UNITS = 1000, 10**6  # no computer samples the weights of larger networks


@dataclass(frozen=True)
class Rule:
    """The rule that a value must satisfy.

    Attributes:
        wanted: the rule in words, following "must be".
        read: converts a value to its stored form; raises `ValueError` if it violates the rule.
        option: the type of the command-line option; a bool is a switch.
        parse: converts the text of an option; None: the text itself.
        words: values that a shell completes.
    """

    wanted: str
    read: Callable[[Any], Any]
    option: Any = str
    parse: Callable[[Any], Any] | None = None
    words: tuple[str, ...] = ()

    def check(self, value: Any, called: str) -> Any:
        """Convert a value to its stored form; raises a `SettingError` that names the setting."""
        try:
            return self.read(value)
        except ValueError:
            raise SettingError(f"{called} must be {self.wanted}, got {shown(value)}.") from None


@dataclass(frozen=True)
class Setting:
    """A setting as users see it.

    Attributes:
        say: description, a sentence without its period.
        rule: the rule for its value.
        form: how it is written on the command line, or what omitting it means.
        flag: flag of the command; empty: made from the name; without dashes: an argument.
        metavar: name of the value in help texts.
    """

    say: str
    rule: Rule
    form: str = ""
    flag: str = ""
    metavar: str | None = None

    def option(self, name: str) -> str:
        """The flag as an error names it."""
        return (self.flag or f"--{name.replace('_', '-')}").partition("/")[0]


def setting(default: Any, rule: Rule, say: str, *, form: str = "", flag: str = "", metavar: str | None = None) -> Any:
    """A field of a settings record; the arguments are those of `Setting`."""
    return field(default=default, metadata={"setting": Setting(say, rule, form, flag, metavar)})


def setting_of(one: Field[Any]) -> Setting:
    """The setting that a field was made by."""
    return one.metadata["setting"]


def settings_of(record: Any) -> dict[str, tuple[Setting, Any]]:
    """All settings of a record class with their defaults, by name."""
    return {one.name: (setting_of(one), one.default) for one in fields(record)}


def read_table(record: Any, table: Table, called: Callable[[str], str]) -> dict[str, Any]:
    """Read and check the values of a settings record from a table.

    Args:
        record: the class of the record.
        table: settings by name; the others keep their defaults.
        called: maps the name of a setting to its name in messages.

    Raises:
        SettingError: a setting is unknown, or its value is invalid.
    """
    known = settings_of(record)
    for name in table:
        if name not in known:
            raise SettingError(f"There is no setting `{name[:LONGEST_SHOWN]}`. {suggest(name, known)}")
    return {
        name: value if value is None and known[name][1] is None else known[name][0].rule.check(value, called(name))
        for name, value in table.items()
    }


def _require(condition: object) -> None:
    if not condition:
        raise ValueError


def _plain(value: Any) -> Any:
    """Convert NumPy scalars to Python scalars."""
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value


def text(*words: str) -> Rule:
    """Any text, such as one of these words."""

    def read(value: Any) -> str:
        _require(isinstance(value, str))
        return value

    return Rule("text", read, words=words)


def texts(wanted: str) -> Rule:
    """One or several texts."""

    def read(value: Any) -> tuple[str, ...]:
        several = [value] if isinstance(value, str) else value
        _require(isinstance(several, list | tuple) and all(isinstance(one, str) for one in several))
        return tuple(several)

    return Rule(wanted, read, list[str])


def one_of(*known: str) -> Rule:
    """One of a few words."""

    def read(value: Any) -> str:
        _require(isinstance(value, str) and value in known)
        return value

    return Rule(" or ".join(known), read, words=known)


def pairs(wanted: str) -> Rule:
    """A table of texts; on the command line NAME=VALUE, where the name may contain `=`."""

    def read(value: Any) -> dict[str, str]:
        _require(isinstance(value, Mapping))
        _require(all(isinstance(key, str) and isinstance(one, str) for key, one in value.items()))
        return dict(value)

    def parse(option: list[str]) -> dict[str, str]:
        found = {name: one for name, _, one in (text.rpartition("=") for text in option)}
        _require(all(found) and all(found.values()))
        return found

    return Rule(wanted, read, list[str], parse)


def switch() -> Rule:
    """True or false."""

    def read(value: Any) -> bool:
        _require(isinstance(_plain(value), bool))
        return bool(value)

    return Rule("true or false", read, bool)


def whole(least: int, most: int = LARGEST_COUNT) -> Rule:
    """An integer of at least `least` and at most `most`."""

    def read(value: Any) -> int:
        _require(is_integer(value) and least <= value <= most)
        return int(value)

    return Rule(f"a whole number, at most {most} and at least {least}", read, int)


def named(*words: str) -> Rule:
    """A name, such as one of these words, or a table of a name and settings."""

    def read(value: Any) -> Any:
        _require(isinstance(value, str) or (isinstance(value, Mapping) and isinstance(value.get("name"), str)))
        return value if isinstance(value, str) else dict(value)

    return Rule("a name, or a table of a `name` and settings", read, words=words)


def share() -> Rule:
    """A number in [0, 1)."""

    def read(value: Any) -> float:
        _require(is_number(value) and 0 <= value < 1)
        return float(value)

    return Rule("at least 0 and below 1", read, float)


def above(least: int, of: str = "a number") -> Rule:
    """A finite number above another."""

    def read(value: Any) -> float:
        _require(is_number(value) and least < value < math.inf)
        return float(value)

    return Rule(f"{of} above {least}", read, float)


def above_zero(of: str = "a number") -> Rule:
    """A finite number above 0."""
    return above(0, of)


def at_least_zero() -> Rule:
    """A finite number of at least 0."""

    def read(value: Any) -> float:
        _require(is_number(value) and 0 <= value < math.inf)
        return float(value)

    return Rule("a number of at least 0", read, float)


def units() -> Rule:
    """Units of layers: integers; a single number means one layer."""

    def read(value: Any) -> tuple[int, ...]:
        several = [value] if is_integer(value) else value
        _require(isinstance(several, list | tuple) and len(several) <= MOST_LAYERS)
        _require(all(is_integer(one) and 1 <= one <= MOST_UNITS for one in several))
        return tuple(int(one) for one in several)

    def parse(option: str) -> list[int]:
        return [] if option.strip().lower() in ("none", "") else [int(part) for part in option.split(",")]

    wanted = f"whole numbers of at least 1 and at most {MOST_UNITS} ({MOST_LAYERS} layers at most), such as 35 or 20,20"
    return Rule(wanted, read, str, parse)
