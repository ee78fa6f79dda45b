"""Reference page of the command line, from its commands."""

from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from cli.credentials import KEY_VARIABLE, URL_VARIABLE
from cli.errors import EXIT_CODE_MEANINGS
from cli.main import app
from ops.documentation.markdown import Page, code, plain, table


def generate() -> Iterator[Page]:
    """Yield the page of the command line."""
    yield Page("reference/command-line.md", "Command line", tuple(_build_parts()))


def list_commands() -> Iterator[tuple[str, Any]]:
    """Yield each command with its name, such as `slipway executions show`."""
    yield from _list_below("slipway", get_command(app))


def _list_below(prefix: str, group: Any) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        path = f"{prefix} {name}"
        yield path, command
        if hasattr(command, "commands"):
            yield from _list_below(path, command)


def _build_parts() -> Iterator[str]:
    yield (
        "`slipway` runs pipelines, follows executions and applies configuration from a terminal or a CI job. "
        "[Use the command line](../how-to/use-the-command-line.md) shows how to install it and sign in."
    )
    for path, command in list_commands():
        yield f"## {path}"
        yield from (plain(" ".join(part.split())) for part in (command.help or "").split("\n\n"))
        if rows := [_build_row(param) for param in command.params if param.name != "help"]:
            yield table(("Argument or option", "Meaning"), rows)
    yield "## Exit codes"
    rows_of_codes = [(str(int(exit_code)), plain(text)) for exit_code, text in EXIT_CODE_MEANINGS.items()]
    yield table(("Code", "Meaning"), rows_of_codes)
    yield "## Environment variables"
    yield table(
        ("Variable", "Meaning"),
        [
            (code(URL_VARIABLE), "URL of Slipway; replaces the stored one"),
            (code(KEY_VARIABLE), "API key; replaces the stored one"),
            (code("SLIPWAY_SCOPE"), "default of `--scope`"),
            (code("XDG_CONFIG_HOME"), "folder with `slipway/credentials.json`; `~/.config` by default"),
            (code("NO_COLOR"), "no colors, with any value"),
            (code("SSL_CERT_FILE"), "certificates to trust instead of the built-in ones"),
            (code("SLIPWAY_DEBUG"), "shows the traceback of an unexpected error"),
        ],
    )


def _build_row(param: Any) -> tuple[str, str]:
    """Return the names of a parameter and its meaning with its default."""
    if not param.opts[0].startswith("-"):
        return code(param.metavar or param.name.upper()), plain(param.help or "")
    names = ", ".join(code(name) for name in sorted(param.opts, key=len, reverse=True))
    default = (
        param.default if isinstance(param.default, int | str) and param.default not in (False, "") else ""
    )
    notes = [param.help or "", f"Default: {default}." if default != "" else ""]
    return names, plain(" ".join(note for note in notes if note))
