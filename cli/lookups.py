"""Resources by the names that people type."""

import re
import uuid
from typing import Any, Final
from urllib.parse import urlsplit

from cli.client import ApiClient, parse_scope
from cli.console import print_text
from cli.errors import CliError, ExitCode
from cli.watch.results import get_label

_LABEL: Final = re.compile(r"(?:(?P<pipeline>[\w.$-]+)#)?#?(?P<number>\d{1,9})")


def find_resource(client: ApiClient, collection: str, identifier: str, scope: str) -> dict[str, Any]:
    """Return the only resource of a list with that identifier in a scope.

    Raises `CliError` if there is none, or several.
    """
    rows = list(client.list(collection, identifier=identifier, **parse_scope(scope), limit=10))
    word = collection.rstrip("s")
    if not rows:
        where = f" in {scope}" if scope else ""
        raise CliError(
            f"There is no {word} {identifier}{where} that you may view.",
            next_step=f"`slipway {collection}` lists them.",
            code=ExitCode.NOT_FOUND,
        )
    if len(rows) > 1:
        scopes = ", ".join(row["scope"].removeprefix("account/") for row in rows)
        raise CliError(
            f"{word.capitalize()} {identifier} exists in several scopes: {scopes}.",
            next_step="Choose one with --scope.",
            code=ExitCode.USAGE,
        )
    return rows[0]


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
