"""Command-line options, generated from the fields of the settings."""

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ergonet.assembly.rules import Setting
from ergonet.assembly.settings import every_setting

if TYPE_CHECKING:
    from ergonet.assembly.settings import Settings

Given = dict[str, dict[str, Any]]
Run = Annotated[str, typer.Argument(metavar="RUN", help="Run directory written by `ergonet fit`.", show_default=False)]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace existing output.")]


def option(*names: str, say: str, metavar: str | None = None) -> Any:
    """An option without a default: if it is not given, its value comes from the settings."""
    return typer.Option(*names, help=say, metavar=metavar, show_default=False)


SettingsFile = Annotated[
    str | None, option("--settings", say="TOML file of settings; options override it.", metavar="FILE")
]


def resolved(given: Given, file: str | None) -> "Settings":
    """The settings of a fit from the given options and a settings file."""
    from ergonet.assembly.settings import resolve
    from ergonet.assembly.settings_file import read_settings_file

    source = given.get("data", {}).pop("source", None)
    return resolve(source, read_settings_file(file) if file is not None else {}, given)


def takes(*places: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add an option to a command for every setting of a table (`run`) or for a single setting (`run.seed`).

    The command receives the given options as tables in its argument `given`.
    """
    chosen = [one for one in every_setting() if one[0] in places or f"{one[0]}.{one[1]}" in places]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def call(**arguments: Any) -> None:
            given: Given = {}
            for table, name, setting, _ in chosen:
                value = arguments.pop(f"{table}_{name}")
                if value is not None and value != []:
                    given.setdefault(table, {})[name] = _parsed(setting, name, value)
            command(given, **arguments)

        own = list(inspect.signature(command).parameters.values())[1:]
        parameters = [*(_parameter(*one) for one in chosen), *own]
        vars(call)["__signature__"] = inspect.Signature(
            [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
        )
        call.__annotations__ = {one.name: one.annotation for one in parameters}
        return call

    return decorate


def _parameter(table: str, name: str, setting: Setting, default: Any) -> inspect.Parameter:
    told: dict[str, Any] = {"help": _help(setting, default), "metavar": setting.metavar, "show_default": False}
    if setting.rule.words:
        told["autocompletion"] = completing(lambda: setting.rule.words)
    if setting.flag and not setting.flag.startswith("-"):
        told["metavar"] = setting.flag
        declared = typer.Argument(**told)
    else:
        flag = setting.flag or f"--{name.replace('_', '-')}"
        if setting.rule.option is bool and not setting.flag:
            flag = f"{flag}/--no-{name.replace('_', '-')}"
        declared = typer.Option(flag, **told)
    annotation = Annotated[setting.rule.option | None, declared]
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(f"{table}_{name}", kind, default=None, annotation=annotation)


def completing(words: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """What a shell completes the beginning of a word to."""

    def found(incomplete: str) -> list[str]:
        return [one for one in words() if one.startswith(incomplete)]

    return found


def _help(setting: Setting, default: Any) -> str:
    """Help text: what the setting is, how it is written, and its default if that is not obvious."""
    parts = [setting.say]
    if setting.form:
        parts.append(setting.form)
    if isinstance(default, str | int | float | tuple) and not isinstance(default, bool) and default not in ("", ()):
        shown = ",".join(map(str, default)) if isinstance(default, tuple) else default
        parts.append(f"{shown} unless set")
    return f"{'; '.join(parts)}."


def _parsed(setting: Setting, name: str, value: Any) -> Any:
    """Parse the text of an option; invalid text is a usage error."""
    if setting.rule.parse is None:
        return value
    try:
        return setting.rule.parse(value)
    except ValueError as error:
        raise typer.BadParameter(
            f"{value!r} is not {setting.rule.wanted}.", param_hint=f"'{setting.option(name)}'"
        ) from error
