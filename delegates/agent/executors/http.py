"""HTTP executor, and the connectivity check of an address."""

import socket
import ssl

from delegates.agent.executors.task_results import ExecutorContext, TaskResult, build_failure, build_success
from delegates.agent.manager_client import encode_body
from delegates.agent.tasks import HeldTask
from guards.limits import AGENT_BYTES
from guards.safe_http import CONNECT_SECONDS, ResponseTooLarge, SafeRequest, build_tls_context, send_request
from guards.urls import parse_url, resolve_host


def run_http(held_task: HeldTask, around: ExecutorContext) -> TaskResult:
    """Send a request; every HTTP status is a success. Raises the errors of `send_request`."""
    params = held_task.task.params
    request = SafeRequest(
        str(params.get("method") or "GET").upper(),
        str(params["url"]),
        headers={str(name): str(value) for name, value in (params.get("headers") or {}).items()},
        body=str(params.get("body") or "").encode(),
    )
    reply = send_request(request, around.way)
    result = {"status": reply.status, "headers": dict(reply.headers), "body": reply.text}
    # Control characters and broken bytes grow on the way to the manager.
    if around.max_result_bytes is not None and len(encode_body(result)) > around.max_result_bytes:
        raise ResponseTooLarge(f"the answer is larger than {AGENT_BYTES // 1024} KiB once it is encoded")
    return build_success(result)


def run_check(held_task: HeldTask, around: ExecutorContext) -> TaskResult:
    """Open a connection, with TLS if the address requires it. Raises the errors of `resolve_host`."""
    url = str(held_task.task.params["url"])
    target = parse_url(url)
    host, port = target.host, target.port
    if around.way.is_proxied(target):
        send_request(SafeRequest("HEAD", url), around.way)
        return build_success({"ok": True, "address": ""})
    place = resolve_host(host, port, around.reach)
    try:
        connection = socket.create_connection((place.address, port), CONNECT_SECONDS)
    except OSError as problem:
        return build_failure(
            "NotConnected", f"no connection to {host} ({place.address}): {problem}", capability=True
        )
    with connection:
        if target.scheme == "https" and (failure := _check_tls(connection, host)):
            return failure
    return build_success({"ok": True, "address": place.address})


def _check_tls(connection: socket.socket, host: str) -> TaskResult | None:
    try:
        with build_tls_context().wrap_socket(connection, server_hostname=host):
            return None
    except ssl.SSLCertVerificationError as problem:
        why = f"the certificate of {host} is not trusted: {problem.verify_message}"
        return build_failure("CertificateRefused", why, capability=True)
    except OSError as problem:
        return build_failure("TlsFailed", f"no TLS with {host}: {problem}", capability=True)
