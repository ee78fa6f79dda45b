"""Finds out whether this delegate reaches an address, and where it ends if not: name, connection, or TLS."""

import socket
import ssl

from delegates.agent.executors.addresses import find_place
from delegates.agent.executors.answers import Answer, Surroundings, failed, succeeded
from delegates.agent.executors.requests import CONNECT_SECONDS, ask, is_proxied, read_url, trusted
from delegates.agent.work import Held


def run_check(held: Held, around: Surroundings) -> Answer:
    """Connect, and speak TLS where the address asks for it. Raises what `ask` raises."""
    url = str(held.task.params["url"])
    scheme, host, port = read_url(url)
    if is_proxied(scheme, host):
        ask("HEAD", url)
        return succeeded({"ok": True, "address": ""})
    place = find_place(host, port)
    try:
        connection = socket.create_connection((place.address, port), CONNECT_SECONDS)
    except OSError as problem:
        return failed(
            "NotConnected", f"no connection to {host} ({place.address}): {problem}", capability=True
        )
    with connection:
        if scheme == "https" and (failure := _tls_failure(connection, host)):
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
