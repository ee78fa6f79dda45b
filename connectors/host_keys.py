"""Host keys of a connector's SSH server: configured, trusted on first use, or offered."""

from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

from django.db import transaction
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from connectors.models import Connector
from connectors.specs.sites import get_url_scheme, normalize_ssh_url, parse_site_spec
from guards.host_keys import HostKey, InvalidHostKey, parse_host_keys
from rbac.audit import record_audit_entry


@dataclass(frozen=True)
class KnownServer:
    """Known host keys of a server.

    `configured` are those of the connector's spec, `seen` is the first presented one. `offered` is a later,
    different key that no user has accepted.
    """

    configured: tuple[HostKey, ...] = ()
    seen: HostKey | None = None
    seen_at: datetime | None = None
    offered: HostKey | None = None
    offered_at: datetime | None = None

    @property
    def keys(self) -> tuple[HostKey, ...]:
        """Return the keys that it may show."""
        return self.configured or ((self.seen,) if self.seen else ())


def get_server_address(url: str) -> str:
    """Return host and port of an SSH server, or an empty text for another URL.

    Earlier releases stored URLs with ports that do not exist.
    """
    if get_url_scheme(url) != "ssh":
        return ""
    parts = urlsplit(normalize_ssh_url(url))
    try:
        return f"{parts.hostname}:{parts.port or 22}"
    except ValueError:
        return ""


def is_ssh_connector(connector: Connector) -> bool:
    """Return whether a connector leads to an SSH server."""
    return (
        connector.kind == Connector.Kind.GIT and get_url_scheme(parse_site_spec(connector.spec).url) == "ssh"
    )


def get_known_server(connector: Connector) -> KnownServer:
    """Return the known host keys of a connector's server; keys of another server are ignored."""
    site, stored = parse_site_spec(connector.spec), connector.host_key
    configured = parse_host_keys(site.host_key)
    if not stored or stored.get("place") != get_server_address(site.url):
        return KnownServer(configured)
    return KnownServer(
        configured,
        _parse_host_key(stored.get("key")),
        parse_datetime(stored.get("seen_at", "")),
        _parse_host_key(stored.get("offered")),
        parse_datetime(stored.get("offered_at", "")),
    )


@transaction.atomic
def record_host_key(connector: Connector, place: str, text: str, *, is_refused: bool = False) -> None:
    """Store a presented host key: the first one as known, a refused one as offered.

    `place` is the server that presented it. Invalid keys and keys of another server are ignored.
    """
    locked, key = (
        Connector.objects.select_for_update(of=("self",)).get(pk=connector.pk),
        _parse_host_key(text),
    )
    if key is None or not place or place != get_server_address(parse_site_spec(locked.spec).url):
        return
    before = get_known_server(locked)
    if not is_refused and not before.keys:
        locked.host_key = {"place": place, "key": str(key), "seen_at": timezone.now().isoformat()}
        action = "connector.keep_host_key"
    elif is_refused and key not in (*before.keys, before.offered):
        current = locked.host_key if locked.host_key.get("place") == place else {}
        locked.host_key = current | {
            "place": place,
            "offered": str(key),
            "offered_at": timezone.now().isoformat(),
        }
        action = "connector.refuse_host_key"
    else:
        return
    locked.save(update_fields=["host_key"])
    after = {"server": place, "fingerprint": key.fingerprint}
    record_audit_entry(actor=None, action=action, thing=locked, before=None, after=after)


@transaction.atomic
def clear_offered_key(connector: Connector) -> None:
    """Clear the offered key, because the server presents the accepted one again."""
    locked = Connector.objects.select_for_update(of=("self",)).get(pk=connector.pk)
    locked.host_key = {
        name: value for name, value in locked.host_key.items() if not name.startswith("offered")
    }
    locked.save(update_fields=["host_key"])


def _parse_host_key(text: object) -> HostKey | None:
    try:
        keys = parse_host_keys(str(text or ""))
    except InvalidHostKey:
        return None
    return keys[0] if keys else None
