"""Commands `delegates` and `spec`, and the group of commands about delegates."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.client import ApiClient, parse_scope
from cli.console import print_json, print_table, print_text
from cli.errors import CliError, ExitCode
from cli.lookups import list_limited, list_nearest
from cli.options import JsonOption, LimitOption, ScopeOption, UrlOption, connect

# A link in the folder must not lead the file elsewhere; Windows has no such flag.
_OPEN_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)


app = typer.Typer(help="List delegates, deploy or remove one.", no_args_is_help=False)


@app.callback(invoke_without_command=True)
def list_delegates(
    context: typer.Context,
    status: Annotated[
        str, typer.Option("--status", help="Status such as CONNECTED.", show_default=False)
    ] = "",
    tag: Annotated[str, typer.Option("--tag", help="Only delegates with this tag.", show_default=False)] = "",
    limit: LimitOption = 50,
    scope: ScopeOption = "",
    url: UrlOption = "",
    as_json: JsonOption = False,
) -> None:
    """List delegates with their state; `deploy` and `upgrade` deploy one, `remove` removes one from AWS."""
    if context.invoked_subcommand:
        return
    filters = {"status": status.upper(), "tag": tag, **parse_scope(scope)}
    rows = list_limited(connect(url), "delegates", limit, **filters)
    if as_json:
        print_json(rows)
        return
    print_table(
        ("Delegate", "Status", "Instances", "Tasks", "Tags", "Scope", "Reason"),
        [
            (
                row["name"],
                row["status"],
                row["connected_instances"],
                f"{row['running']}/{row['capacity']}",
                ", ".join(row["tags"]),
                row["scope"].removeprefix("account/"),
                row["reason"],
            )
            for row in rows
        ],
    )


def print_spec(
    delegate: Annotated[str, typer.Argument(metavar="DELEGATE", help="Name of the delegate.")],
    image: Annotated[
        str, typer.Option("--image", help="Another image, for an upgrade.", show_default=False)
    ] = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for the files.", show_default=False)
    ] = None,
    scope: ScopeOption = "",
    url: UrlOption = "",
    as_json: JsonOption = False,
) -> None:
    """Print the task definition and commands that run a delegate, or write them into a folder.

    The files may contain the delegate's token.
    """
    client = connect(url)
    row = find_delegate(client, delegate, scope)
    spec = client.send("POST", f"delegates/{row['id']}/task-spec", body={"image": image}).document
    for warning in spec["warnings"]:
        print_text(f"Warning: {warning}", style="yellow", is_error=True)
    if as_json:
        print_json(spec)
    elif output is not None:
        _write_files(output, spec["files"])
    else:
        _print_files(spec)


def find_delegate(client: ApiClient, name: str, scope: str) -> dict[str, Any]:
    """Return the delegate of that name in a scope, else the only one below it.

    Raises `CliError` if there is none, or several.
    """
    rows = list_nearest(client, "delegates", scope, name=name)
    if not rows:
        raise CliError(
            f"There is no delegate {name} that you may view.",
            next_step="`slipway delegates` lists them.",
            code=ExitCode.NOT_FOUND,
        )
    if len(rows) > 1:
        raise CliError(
            f"Several delegates are named {name}.", next_step="Choose one with --scope.", code=ExitCode.USAGE
        )
    return rows[0]


def _print_files(spec: Mapping[str, Any]) -> None:
    for name, content in spec["files"].items():
        print_text(f"# {name}", style="bold")
        print_text(content)
    for command in spec["commands"]:
        print_text(f"# {command['title']}", style="bold")
        print_text(command["command"])


def _write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write the files, readable for this user only.

    Raises `CliError` for a name that leaves the folder, or for a place that cannot be written.
    """
    for name, content in files.items():
        if Path(name).name != name or name in (".", "..") or "\\" in name:
            raise CliError(f"The server named the file {name}, which is not in {folder}.")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _write_file(folder / name, content)
        except OSError as exc:
            raise CliError(
                f"{exc.filename or folder / name} cannot be written: {exc.strerror}",
                next_step="Name another folder with --output.",
            ) from exc
        print_text(folder / name)


def _write_file(path: Path, content: str) -> None:
    descriptor = os.open(path, _OPEN_FLAGS, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        # A file that exists keeps its mode; Windows has no modes.
        if hasattr(os, "fchmod"):
            os.fchmod(descriptor, 0o600)
        file.write(content)
