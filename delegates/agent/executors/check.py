"""Finds out whether this delegate reaches an address, and where it ends if not: name, connection, or TLS."""

import socket
import ssl

from delegates.agent.executors.answers import Answer, Surroundings, failed, succeeded
from delegates.agent.work import Held
from guards.places import find_place, read_url
from guards.safe_http import CONNECT_SECONDS, Ask, ask, trusted


def run_check(held: Held, around: Surroundings) -> Answer:
    """Connect, and speak TLS where the address asks for it. Raises what `ask` raises."""
    url = str(held.task.params["url"])
    target = read_url(url)
    host, port = target.host, target.port
    if around.way.is_proxied(target):
        ask(Ask("HEAD", url), around.way)
        return succeeded({"ok": True, "address": ""})
    place = find_place(host, port, around.reach)
    try:
        connection = socket.create_connection((place.address, port), CONNECT_SECONDS)
    except OSError as problem:
        return failed(
            "NotConnected", f"no connection to {host} ({place.address}): {problem}", capability=True
        )
    with connection:
        if target.scheme == "https" and (failure := _tls_failure(connection, host)):
            return failure
    return succeeded({"ok": True, "address": place.address})


def _tls_failure(connection: socket.socket, host: str) -> Answer | None:
    try:
        with trusted().wrap_socket(connection, server_hostname=host):
            return None
    except ssl.SSLCertVerificationError as problem:
        why = f"the certificate of {host} is not trusted: {problem.verify_message}"
        return failed("CertificateRefused", why, capability=True)
    except OSError as problem:
        return failed("TlsFailed", f"no TLS with {host}: {problem}", capability=True)
