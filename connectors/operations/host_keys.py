"""Accepting the new key of an SSH server."""

from django.db import transaction

from connectors.host_keys import known_server
from connectors.models import Connector
from rbac.audit import record
from rbac.models import User
from rbac.policy import require
from web.problems import Conflict


@transaction.atomic
def accept_host_key(*, actor: User, connector: Connector, fingerprint: str) -> Connector:
    """Know a server from now on by the key that it offered, in place of what was known of it.

    `fingerprint` is the one that the person compared. Raises `Conflict` where the server offered another
    key, or none.
    """
    require(actor, "core_connector_edit", connector)
    found = Connector.objects.select_for_update(of=("self",)).select_related("scope").get(pk=connector.pk)
    server = known_server(found)
    if server.offered is None:
        raise Conflict("The server has offered no other key. Test the connector, then look again.")
    if server.offered.fingerprint != fingerprint.strip():
        raise Conflict(
            f"The key that waits to be accepted is {server.offered.fingerprint}. "
            "Compare this one with the server's own, then accept it."
        )
    if server.given:
        found.spec = {**found.spec, "host_key": str(server.offered)}
    found.host_key = {
        "place": found.host_key["place"],
        "key": str(server.offered),
        "seen_at": found.host_key["offered_at"],
    }
    found.forget_test()
    found.save()
    record(
        actor=actor,
        action="connector.accept_host_key",
        thing=found,
        before={"fingerprints": [one.fingerprint for one in server.keys]},
        after={"fingerprints": [server.offered.fingerprint]},
    )
    return found
