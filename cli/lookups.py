"""Resources by the names that people type."""

import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from cli.client import ApiClient, parse_scope
from cli.console import print_text
from cli.errors import CliError, ExitCode
from cli.resources.yaml_documents import get_scope_name
from cli.watch.results import get_label

_MAX_NAMED: Final = 10
_LABEL: Final = re.compile(r"(?:(?P<pipeline>[\w.$-]+)#)?#?(?P<number>\d{1,9})")


def find_resource(
    client: ApiClient,
    collection: str,
    identifier: str,
    scope: str,
    *,
    choose: str = "Choose one with --scope.",
) -> dict[str, Any]:
    """Return the resource of a list with that identifier in a scope, else the only one below it.

    Raises `CliError` if there is none, or several.
    """
    rows = list_nearest(client, collection, scope, identifier=identifier)
    word = collection.rstrip("s")
    if not rows:
        where = f" in {scope}" if scope else ""
        raise CliError(
            f"There is no {word} {identifier}{where} that you may view.",
            next_step=f"`slipway {collection}` lists them.",
            code=ExitCode.NOT_FOUND,
        )
    if len(rows) > 1:
        raise CliError(
            f"{word.capitalize()} {identifier} exists in several scopes: {_join_scopes(rows)}.",
            next_step=choose,
            code=ExitCode.USAGE,
        )
    return rows[0]


def list_nearest(client: ApiClient, collection: str, scope: str, **filters: Any) -> list[dict[str, Any]]:
    """Return the rows of exactly a scope if there are any, else those of the scopes below it."""
    rows = list(client.list(collection, **filters, **parse_scope(scope)))
    own = [row for row in rows if scope and get_scope_name(row["scope"]) == get_scope_name(scope)]
    return own or rows


def _join_scopes(rows: Sequence[Mapping[str, Any]]) -> str:
    scopes = [row["scope"].removeprefix("account/") for row in rows]
    return ", ".join([*scopes[:_MAX_NAMED], *(["…"] if len(scopes) > _MAX_NAMED else [])])


def list_limited(client: ApiClient, collection: str, limit: int, **filters: Any) -> list[dict[str, Any]]:
    """Return at most `limit` rows of a list, and say on standard error if there are more."""
    rows = list(client.list(collection, limit=limit + 1, **filters))
    if len(rows) > limit:
        print_text(f"There are more; print them with --limit {limit * 10}.", style="dim", is_error=True)
    return rows[:limit]


def find_execution(client: ApiClient, name: str, scope: str = "") -> dict[str, Any]:
    """Return the execution of a number, of a label such as shop#12, of an id or of the URL of its page.

    Raises `CliError` if there is none, or several.
    """
    if execution_id := _parse_id(name):
        return dict(client.get(f"executions/{execution_id}"))
    match = _LABEL.fullmatch(name)
    if match is None:
        raise CliError(
            f"{name} names no execution.",
            next_step="Use a number such as 12, PIPELINE#NUMBER such as shop#12, or an id.",
            code=ExitCode.USAGE,
        )
    number = int(match["number"])
    filters: dict[str, Any] = {"q": number, "identifier": match["pipeline"], **parse_scope(scope)}
    rows = [row for row in client.list("executions", **filters) if row["number"] == number]
    if not rows:
        raise CliError(
            f"There is no execution {name} that you may view.",
            next_step="`slipway executions` lists them.",
            code=ExitCode.NOT_FOUND,
        )
    if len(rows) > 1:
        labels = ", ".join(
            f"{get_label(row)} in {row['scope'].removeprefix('account/')}" for row in rows[:10]
        )
        raise CliError(
            f"Several executions have the number {number}: {labels}.",
            next_step="Use PIPELINE#NUMBER, or --scope.",
            code=ExitCode.USAGE,
        )
    return dict(client.get(f"executions/{rows[0]['id']}"))


def _parse_id(name: str) -> str:
    """Return the id in an id or in the URL of a page, or an empty text."""
    parts = [name] if "/" not in name else urlsplit(name).path.split("/")
    for part in parts:
        try:
            return str(uuid.UUID(part))
        except ValueError:
            continue
    return ""
