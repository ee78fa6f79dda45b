"""Commands that list services, pipelines and environments."""

from collections.abc import Callable, Mapping
from typing import Any

import typer

from cli.client import parse_scope
from cli.console import print_json, print_table
from cli.lookups import list_limited
from cli.options import JsonOption, LimitOption, ScopeOption, UrlOption, connect

Columns = Mapping[str, Callable[[dict[str, Any]], object]]


def _get_scope(row: dict[str, Any]) -> str:
    return str(row["scope"]).removeprefix("account/")


SERVICE_COLUMNS: Columns = {
    "Service": lambda row: row["identifier"],
    "Name": lambda row: row["name"],
    "Image": lambda row: (
        ":".join((row["artifact"]["image"], row["artifact"]["tag"])) if row["artifact"] else ""
    ),
    "Scope": _get_scope,
    "Version": lambda row: row["version"],
}
PIPELINE_COLUMNS: Columns = {
    "Pipeline": lambda row: row["identifier"],
    "Name": lambda row: row["name"],
    "Scope": _get_scope,
    "Version": lambda row: row["version"],
}
ENVIRONMENT_COLUMNS: Columns = {
    "Environment": lambda row: row["identifier"],
    "Name": lambda row: row["name"],
    "Kind": lambda row: row["kind"],
    "Scope": _get_scope,
    "Version": lambda row: row["version"],
}


def list_services(
    limit: LimitOption = 50, scope: ScopeOption = "", url: UrlOption = "", as_json: JsonOption = False
) -> None:
    """List services."""
    _print_list("services", SERVICE_COLUMNS, limit, scope, url, as_json=as_json)


def list_pipelines(
    limit: LimitOption = 50, scope: ScopeOption = "", url: UrlOption = "", as_json: JsonOption = False
) -> None:
    """List pipelines."""
    _print_list("pipelines", PIPELINE_COLUMNS, limit, scope, url, as_json=as_json)


def list_environments(
    limit: LimitOption = 50, scope: ScopeOption = "", url: UrlOption = "", as_json: JsonOption = False
) -> None:
    """List environments."""
    _print_list("environments", ENVIRONMENT_COLUMNS, limit, scope, url, as_json=as_json)


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command("services")(list_services)
    app.command("pipelines")(list_pipelines)
    app.command("environments")(list_environments)


def _print_list(
    collection: str, columns: Columns, limit: int, scope: str, url: str, *, as_json: bool
) -> None:
    rows = list_limited(connect(url), collection, limit, **parse_scope(scope))
    if as_json:
        print_json(rows)
        return
    print_table(tuple(columns), [[get_value(row) for get_value in columns.values()] for row in rows])
