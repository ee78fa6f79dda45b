"""What an answer of git says of the SSH server that was asked: kept at the connector."""

from collections.abc import Mapping
from typing import Any, Protocol

from connectors.host_keys import forget_offer, note_shown, place_of
from connectors.models import Connector


class _Ended(Protocol):
    @property
    def result(self) -> Mapping[str, Any] | None: ...
    @property
    def error(self) -> Mapping[str, Any] | None: ...


def note_host_key(connector: Connector | None, url: str, answer: _Ended) -> None:
    """Keep the key in an answer, if there is one; `url` is where the connector led when that was asked."""
    if connector is None or connector.kind != Connector.Kind.GIT:
        return
    if shown := (answer.result or {}).get("host_key"):
        note_shown(connector, place_of(url), str(shown))
    elif answer.result and connector.host_key.get("offered"):
        forget_offer(connector)
    if offered := (answer.error or {}).get("host_key"):
        note_shown(connector, place_of(url), str(offered), is_refused=True)
