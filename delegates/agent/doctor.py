"""Checks of a delegate's place, from its environment to its AWS permissions, each with the fix (N13).

`slipway-delegate doctor` and the task of kind `doctor` run the same checks, in the order in which a
connection depends on them. No check registers the delegate or changes anything.
"""

import shutil
import socket
import ssl
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.sync.client import connect

from aws.apis.iam import IamClient, IamDecision, StsClient, parse_principal_arn
from aws.caller import BotoCaller
from aws.clients import DefaultChain
from aws.errors import AwsError, Denied, Unauthenticated
from aws.policies import BASE_POLICY
from delegates.agent import VERSION
from delegates.agent.identity import InstanceKey
from delegates.agent.manager_client import ManagerClient, ManagerUnreachable, RequestRefused
from delegates.agent.settings import (
    AgentSettings,
    InvalidEnvironment,
    configure_process_network,
    read_environment,
)
from guards.examinations import Check, Finding, Result, examine

CONNECT_SECONDS: Final = 5.0
# AWS refuses signatures that are five minutes old; the manager reports differences of 30 seconds.
CLOCK_WARNING_SECONDS, CLOCK_FAILURE_SECONDS = 30.0, 240.0
FREE_BYTES: Final = 200 * 2**20
_SOCKET_PATH: Final = "/ws/agent/"
# With this code the manager refuses a socket without a session, once it is open.
_UNAUTHENTICATED: Final = 4401
_SHOWN_ACTIONS: Final = 6


@dataclass
class Surroundings:
    """Environment of the delegate under examination."""

    environ: MutableMapping[str, str]
    # Folder for certificates; it ends with the examination.
    folder: Path
    # Of a running delegate, which has configured its process.
    tls: ssl.SSLContext | None
    settings: AgentSettings = field(init=False)

    @cached_property
    def target(self) -> tuple[str, str, int]:
        """Return scheme, host and port of the manager."""
        parts = urlsplit(self.settings.manager_url)
        default = 443 if parts.scheme == "https" else 80
        return parts.scheme, parts.hostname or "", parts.port or default

    @cached_property
    def proxy(self) -> tuple[str, int] | None:
        """Return host and port of the proxy to the manager, or None for a direct connection."""
        scheme, host, _ = self.target
        url = urllib.request.getproxies().get(scheme, "")
        if not url or urllib.request.proxy_bypass(host):
            return None
        parts = urlsplit(url if "://" in url else f"http://{url}")
        return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def examine_delegate(
    environ: MutableMapping[str, str], tls: ssl.SSLContext | None = None
) -> Iterator[tuple[str, Finding]]:
    """Yield the findings of all checks with their names, each as soon as it is known.

    Without the `tls` of a running delegate, proxy and certificates are set in `environ` as at its start.
    """
    with tempfile.TemporaryDirectory() as folder:
        surroundings = Surroundings(environ, Path(folder), tls)
        yield from examine(
            Check(name, partial(examine_part, surroundings), needs) for name, examine_part, needs in CHECKS
        )


def _examine_settings(around: Surroundings) -> Iterator[Finding]:
    try:
        around.settings = read_environment(around.environ)
        if around.tls is None:
            bundle = around.settings.ca_bundle
            around.tls = configure_process_network(around.environ, around.folder, bundle)
    except InvalidEnvironment as problem:
        yield Finding(Result.FAILED, str(problem), "Correct the variable, and start the delegate again.")
        return
    yield Finding(
        Result.OK, f"Delegate {around.settings.name}, version {VERSION}, for {around.settings.manager_url}."
    )


def _examine_disk(around: Surroundings) -> Iterator[Finding]:
    home = around.settings.home
    try:
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=home):
            pass
        free = shutil.disk_usage(home).free
    except OSError as problem:
        fix = "Mount a folder that the delegate's user may write, or set SLIPWAY_DELEGATE_HOME."
        yield Finding(Result.FAILED, f"{home} cannot be written: {problem.strerror or problem}.", fix)
        return
    text = f"{home} has {free // 2**20:,} MiB free."
    if free < FREE_BYTES:
        yield Finding(Result.WARNING, text, "Free space: logs and files of tasks are written there.")
    else:
        yield Finding(Result.OK, text)


def _examine_name(around: Surroundings) -> Iterator[Finding]:
    host, port = _get_first_hop(around)
    try:
        rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as problem:
        fix = (
            "Correct PROXY_HOST or HTTPS_PROXY."
            if around.proxy
            else "Correct HARNESS_URL, or give this network a DNS server that knows the name."
        )
        yield Finding(Result.FAILED, f"The name {host} has no address: {problem.strerror or problem}.", fix)
        return
    addresses = sorted({str(row[4][0]) for row in rows})
    yield Finding(Result.OK, f"{host} is {', '.join(addresses)}.")


def _examine_connection(around: Surroundings) -> Iterator[Finding]:
    host, port = _get_first_hop(around)
    label = f"the proxy {host}" if around.proxy else host
    try:
        socket.create_connection((host, port), CONNECT_SECONDS).close()
    except OSError as problem:
        yield Finding(
            Result.FAILED,
            f"No TCP connection to {label} on port {port}: {problem.strerror or problem}.",
            f"Allow outgoing TCP on port {port} in security groups, network ACLs and routes of this network, "
            "and check that the server listens.",
        )
        return
    yield Finding(Result.OK, f"TCP connection to {label} on port {port}.")


def _examine_manager(around: Surroundings) -> Iterator[Finding]:
    """Check TLS and HTTP, through the proxy if there is one, and compare the clocks."""
    url = around.settings.manager_url
    try:
        with httpx.Client(verify=_get_tls(around), timeout=CONNECT_SECONDS) as client:
            before = time.time()
            answer = client.get(f"{url}/healthz")
            now = (before + time.time()) / 2
    except (httpx.HTTPError, ssl.SSLError, OSError) as problem:
        yield _explain_failed_request(around, problem)
        return
    if around.target[0] == "https":
        yield Finding(Result.OK, f"The certificate of {around.target[1]} is trusted.")
    else:
        fix = "Use https: the token would be readable on the way."
        yield Finding(Result.WARNING, "The connection to Slipway is not encrypted.", fix)
    if "date" in answer.headers:
        yield _compare_clocks(answer.headers["date"], now)


def _explain_failed_request(around: Surroundings, problem: Exception) -> Finding:
    text = str(problem) or type(problem).__name__
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return Finding(
            Result.FAILED,
            f"The certificate of {around.target[1]} is not trusted: {text}.",
            "Give the certificate of your certificate authority by SLIPWAY_CA_BUNDLE.",
        )
    if isinstance(problem, httpx.ProxyError):
        return Finding(
            Result.FAILED,
            f"The proxy refuses the connection to {around.target[1]}: {text}.",
            "Allow the address of Slipway in the proxy, or correct PROXY_USER and PROXY_PASSWORD.",
        )
    return Finding(
        Result.FAILED,
        f"{around.settings.manager_url} does not answer by HTTP: {text}.",
        "Check scheme and port in HARNESS_URL, and whether Slipway runs.",
    )


def _compare_clocks(date: str, now: float) -> Finding:
    try:
        server = parsedate_to_datetime(date).timestamp()
    except (TypeError, ValueError):
        return Finding(Result.SKIPPED, "The server does not tell the time.")
    # The server tells whole seconds.
    skew = now - server - 0.5
    text = f"The clock is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} that of Slipway."
    if abs(skew) >= CLOCK_FAILURE_SECONDS:
        return Finding(Result.FAILED, text, "Set the clock by NTP: AWS refuses calls at 5 minutes or more.")
    if abs(skew) >= CLOCK_WARNING_SECONDS:
        return Finding(Result.WARNING, text, "Set the clock by NTP.")
    return Finding(Result.OK, f"The clock agrees with that of Slipway, at {datetime.now(UTC):%H:%M:%S} UTC.")


def _examine_token(around: Surroundings) -> Iterator[Finding]:
    """Ask for a challenge: the manager checks token and account before it gives one, and stores nothing."""
    settings = around.settings
    manager = ManagerClient(settings.manager_url, _get_tls(around))
    body = {
        "account_id": settings.account_id,
        "name": settings.name,
        "instance_key": "doctor",
        "public_key": InstanceKey(Ed25519PrivateKey.generate()).public,
        "hostname": socket.gethostname(),
        "private_ip": "",
        "version": VERSION,
        "kind": settings.kind,
        "time": time.time(),
    }
    try:
        _, answer = manager.post("/agent/v1/register", body, bearer=settings.token)
    except ManagerUnreachable as problem:
        fix = "Check HARNESS_URL: it must be the address of Slipway, without a path."
        yield Finding(Result.FAILED, f"The server is not Slipway: {problem}.", fix)
        return
    except RequestRefused as refusal:
        fix = "Copy token and account ID again from the page of the delegate."
        yield Finding(Result.FAILED, f"Slipway refuses this delegate: {refusal}", fix)
        return
    finally:
        manager.close()
    if answer.get("challenge"):
        yield Finding(Result.OK, "Slipway accepts the token and the account ID.")
    else:
        yield Finding(Result.WARNING, "Slipway did not say whether it accepts the token.", "Upgrade Slipway.")


def _examine_socket(around: Surroundings) -> Iterator[Finding]:
    if not around.settings.uses_socket:
        yield Finding(Result.SKIPPED, "WebSockets are off by SLIPWAY_DELEGATE_NO_SOCKET: it polls.")
        return
    url = around.settings.manager_url.replace("http", "ws", 1) + _SOCKET_PATH
    fix = "Let the proxies in between pass WebSockets (Upgrade and Connection headers). Until then it polls."
    try:
        with connect(
            url,
            ssl=_get_tls(around) if url.startswith("wss:") else None,
            open_timeout=CONNECT_SECONDS,
            close_timeout=1,
        ) as websocket:
            websocket.recv(timeout=CONNECT_SECONDS)
    except ConnectionClosed as closed:
        # Without a session, that is the answer of a manager.
        if closed.rcvd and closed.rcvd.code == _UNAUTHENTICATED:
            yield Finding(Result.OK, "WebSockets reach Slipway.")
        else:
            yield Finding(Result.WARNING, f"The WebSocket was closed: {closed}.", fix)
        return
    except (WebSocketException, OSError, TimeoutError) as problem:
        yield Finding(Result.WARNING, f"No WebSocket to Slipway: {problem or type(problem).__name__}.", fix)
        return
    yield Finding(Result.OK, "WebSockets reach Slipway.")


def _examine_aws(around: Surroundings) -> Iterator[Finding]:
    """Check the delegate's own identity in AWS, and the actions of the base policy by simulation."""
    region = around.environ.get("AWS_REGION") or around.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    caller = BotoCaller(DefaultChain(), region)
    try:
        identity = StsClient(caller).get_identity()
    except Unauthenticated:
        yield Finding(
            Result.WARNING,
            "It has no AWS credentials of its own.",
            "Give its ECS task a task role, unless all connectors bring their own credentials.",
        )
        return
    except AwsError as error:
        yield Finding(
            Result.FAILED,
            error.display_message,
            f"Let this network reach AWS in {region}: by NAT, a proxy, or a VPC endpoint for sts.",
        )
        return
    yield Finding(Result.OK, f"In AWS it is {identity.arn}.")
    yield _simulate(IamClient(caller), identity.arn)


def _simulate(iam: IamClient, identity: str) -> Finding:
    try:
        decisions = iam.simulate_actions(parse_principal_arn(identity), BASE_POLICY.actions)
    except Denied:
        fix = "Allow iam:SimulatePrincipalPolicy to have them checked."
        return Finding(Result.SKIPPED, "Its permissions were not checked.", fix)
    except AwsError as error:
        return Finding(Result.SKIPPED, f"Its permissions were not checked: {error.display_message}")
    denied = [action for action, decision in decisions.items() if decision is IamDecision.DENIED]
    if not denied:
        return Finding(Result.OK, "Its policies allow all actions of a deployment to ECS.")
    more = f" and {len(denied) - _SHOWN_ACTIONS} more" if len(denied) > _SHOWN_ACTIONS else ""
    return Finding(
        Result.WARNING,
        f"Its policies do not allow {', '.join(denied[:_SHOWN_ACTIONS])}{more}.",
        "Attach the policies of the page Delegates → Help to its task role, if it deploys with its own "
        "credentials.",
    )


def _get_tls(around: Surroundings) -> ssl.SSLContext:
    if around.tls is None:
        raise RuntimeError("The settings are examined first.")
    return around.tls


def _get_first_hop(around: Surroundings) -> tuple[str, int]:
    return around.proxy or around.target[1:]


_NETWORK: Final = ("settings", "name", "connection")
CHECKS: Final[tuple[tuple[str, Callable[[Surroundings], Iterator[Finding]], tuple[str, ...]], ...]] = (
    ("settings", _examine_settings, ()),
    ("disk", _examine_disk, ("settings",)),
    ("name", _examine_name, ("settings",)),
    ("connection", _examine_connection, ("settings", "name")),
    ("TLS and clock", _examine_manager, _NETWORK),
    ("token", _examine_token, (*_NETWORK, "TLS and clock")),
    ("WebSocket", _examine_socket, (*_NETWORK, "TLS and clock")),
    ("AWS", _examine_aws, ("settings",)),
)


def print_diagnosis(environ: MutableMapping[str, str]) -> int:
    """Print the findings as they come, and return the exit code: 1 if a check failed."""
    code = 0
    for name, finding in examine_delegate(environ):
        print(f"{finding.result.value:8} {name}: {finding.message}", flush=True)  # noqa: T201  -- for a person
        if finding.fix:
            print(f"{'':8} → {finding.fix}", flush=True)  # noqa: T201  -- for a person
        code = code or int(finding.result is Result.FAILED)
    return code
