"""WSGI application: journal, faults and the account lock around every AWS call."""

import io
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any
from urllib.parse import urlsplit

from flask import Flask
from moto.iam.models import get_account_id_from
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

from sandbox.account import Account
from sandbox.aws_protocol import (
    UNSIGNED_OPERATIONS,
    AwsHttpResponse,
    AwsRequest,
    build_error_response,
    parse_error_code,
    parse_request,
)
from sandbox.control_api import ControlApi
from sandbox.faults import DEFAULT_HANG_SECONDS, InjectedFault
from sandbox.journal import is_read
from sandbox.services import sqs
from sandbox.services.iam import is_simulation, simulate_policy

StartResponse = Callable[..., Any]
NOT_IMPLEMENTED = 501
INTERNAL_ERROR = 500
LOOPBACK = ("127.0.0.1", "localhost", "::1")
BODY_LIMIT = 50 * 1024 * 1024
NO_RESPONSE = AwsHttpResponse(0, (), b"")
BROWSER_DENIED = AwsHttpResponse(
    403, (("Content-Type", "text/plain"),), b"The sandbox answers local programs only.\n"
)
# Any access key is as good as another, but for those that begin so: a wrong key can then be tried, too.
INVALID_KEY_PREFIX = "AKIAINVALID"


class Gateway:
    """The WSGI application."""

    def __init__(self, account: Account, control: ControlApi) -> None:
        self.account = account
        self.control = control
        self.moto = DomainDispatcherApplication(_create_app)
        account.inside.open(self.within)

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(min(int(environ.get("CONTENT_LENGTH") or 0), BODY_LIMIT))
        if not _is_local(environ):
            respond = BROWSER_DENIED
        elif environ.get("PATH_INFO", "").startswith("/sandbox/"):
            respond = self.control.respond(environ["REQUEST_METHOD"], environ["PATH_INFO"], environ, body)
        else:
            respond = self.respond(environ, body)
        if respond is NO_RESPONSE:
            _close_connection(environ)
        start_response(f"{respond.status or 500} ", list(respond.headers))
        return [respond.body]

    def respond(self, environ: dict[str, Any], body: bytes) -> AwsHttpResponse:
        """Return the response to an AWS call, with its injected fault, if any."""
        call = parse_request(environ, body)
        if wait_seconds := sqs.get_wait_seconds(call):
            self._wait_for_messages(call, wait_seconds)
            body = sqs.drop_wait(body)
            environ = {**environ, "CONTENT_LENGTH": str(len(body))}
        with self.account.lock:
            if stranger := self._reject(call):
                return stranger
            fault = self.account.faults.strike(call) or self._exceed_quota(call)
            if fault is None and is_simulation(call):
                respond = simulate_policy(call, self.account.faults.active)
                self._record_call(call, error="", fault="")
            elif fault is None or fault.kind in ("stale_reads", "lost_answer"):
                respond = self._execute(call, environ, body, fault)
            else:
                respond = self._refuse(call, fault)
            released = self.account.faults.released
        if not is_read(call.operation):
            # Responses must survive the end of this process.
            self.account.save()
        if fault is not None and (
            fault.kind == "hang" or (fault.kind == "lost_answer" and fault.lost_as == "hang")
        ):
            released.wait(fault.seconds or DEFAULT_HANG_SECONDS)
        return respond

    def _wait_for_messages(self, call: AwsRequest, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with self.account.lock:
                if sqs.has_messages(call):
                    return
            time.sleep(sqs.POLL_SECONDS)

    def _reject(self, call: AwsRequest) -> AwsHttpResponse | None:
        """Return the error for a call without a key or with an invalid key."""
        is_json = call.protocol == "json"
        if not call.access_key and call.operation in UNSIGNED_OPERATIONS:
            return None
        if not call.access_key:
            code, text = "MissingAuthenticationToken", "Missing Authentication Token"
            code += "Exception" if is_json else ""
        elif call.access_key.startswith(INVALID_KEY_PREFIX):
            code = "UnrecognizedClientException" if is_json else "InvalidClientTokenId"
            text = "The security token included in the request is invalid."
        else:
            return None
        self._record_call(call, error=code, fault="")
        return build_error_response(call, 400 if is_json else 403, code, text)

    def _exceed_quota(self, call: AwsRequest) -> InjectedFault | None:
        """Return a throttling for a call that exceeds an enforced quota."""
        account = get_account_id_from(call.access_key)
        if self.account.quotas.admits(account, call.region, call.service, call.operation):
            return None
        return InjectedFault("throttle")

    def _refuse(self, call: AwsRequest, fault: InjectedFault) -> AwsHttpResponse:
        """Return the response of a fault that prevents the call."""
        if fault.kind == "throttle":
            code = "ThrottlingException" if call.protocol == "json" else "Throttling"
            respond = build_error_response(call, 400, code, "Rate exceeded")
        elif fault.kind == "denied":
            respond = self._deny(call)
        elif fault.kind == "error500":
            respond = build_error_response(
                call, 500, "ServerException", "Service Unavailable. Please try again later."
            )
        else:
            respond = NO_RESPONSE
        self._record_call(call, error=parse_error_code(respond) or fault.kind, fault=fault.kind)
        return respond

    def _deny(self, call: AwsRequest) -> AwsHttpResponse:
        action = f"{'elasticloadbalancing' if call.service == 'elbv2' else call.service}:{call.operation}"
        principal = f"arn:aws:iam::{get_account_id_from(call.access_key)}:user/sandbox"
        text = (
            f"User: {principal} is not authorized to perform: {action} on resource: {_get_resource(call)}"
            f" because no identity-based policy allows the {action} action"
        )
        code, status = ("AccessDeniedException", 400) if call.protocol == "json" else ("AccessDenied", 403)
        return build_error_response(
            call, status, "UnauthorizedOperation" if call.protocol == "ec2" else code, text
        )

    def _execute(
        self, call: AwsRequest, environ: dict[str, Any], body: bytes, fault: InjectedFault | None
    ) -> AwsHttpResponse:
        self.account.journal.begin()
        stale = fault is not None and fault.kind == "stale_reads"
        with self.account.as_of(fault.snapshot) if fault is not None and stale else nullcontext():
            respond = self._send_to_moto(call, environ, body)
        self._record_call(call, error=parse_error_code(respond), fault=fault.kind if fault else "")
        if not is_read(call.operation):
            self.account.is_dirty = True
        if fault is None or stale:
            return respond
        if fault.lost_as == "error500":
            return build_error_response(
                call, 500, "ServerException", "Service Unavailable. Please try again later."
            )
        return NO_RESPONSE

    def _record_call(self, call: AwsRequest, *, error: str, fault: str) -> None:
        self.account.journal.add(
            service=call.service,
            operation=call.operation,
            region=call.region,
            account=get_account_id_from(call.access_key),
            params=call.params,
            error=error,
            fault=fault,
            key=call.access_key,
        )

    def _send_to_moto(self, call: AwsRequest, environ: dict[str, Any], body: bytes) -> AwsHttpResponse:
        if environ.get("PATH_INFO", "").startswith("/moto-api"):
            return build_error_response(call, 404, "NotFound", "moto's own API is closed; see /sandbox/.")
        if call.service == "cloudformation":
            return self.account.cloudformation.respond(call, body)
        return self._send_directly(call, environ, body)

    def within(self, environ: dict[str, Any], body: bytes) -> AwsHttpResponse:
        """Return the response to a call between services, without faults and journal, under the lock."""
        return self._send_directly(parse_request(environ, body), environ, body)

    def _send_directly(self, call: AwsRequest, environ: dict[str, Any], body: bytes) -> AwsHttpResponse:
        environ = {**environ, "wsgi.input": io.BytesIO(body)}
        head: list[Any] = []

        def start(
            status: str, headers: list[tuple[str, str]], exc_info: Any = None
        ) -> Callable[[bytes], None]:
            head[:] = [int(status.split()[0]), tuple(headers)]
            return lambda _: None

        content = b"".join(self.moto(environ, start))
        if head[0] == NOT_IMPLEMENTED:
            text = f"The sandbox does not know {call.service}:{call.operation}."
            return build_error_response(call, 400, "UnknownOperationException", text)
        if head[0] == INTERNAL_ERROR and call.protocol != "rest":
            return build_error_response(
                call, 500, "InternalFailure", "The sandbox itself failed; its output says why."
            )
        return AwsHttpResponse(head[0], head[1], content)


def _get_resource(call: AwsRequest) -> str:
    if call.service != "ecs" or not (cluster := str(call.params.get("cluster", "")).rpartition("/")[2]):
        return "*"
    prefix = f"arn:aws:ecs:{call.region}:{get_account_id_from(call.access_key)}"
    name = call.params.get("service") or call.params.get("serviceName")
    return f"{prefix}:service/{cluster}/{name}" if name else f"{prefix}:cluster/{cluster}"


def _create_app(service: Any) -> Flask:
    app = create_backend_app(service)
    # Else an error in moto would end the request before the journal has it.
    app.config["PROPAGATE_EXCEPTIONS"] = False
    app.register_error_handler(NotImplementedError, lambda _: ("", NOT_IMPLEMENTED))
    return app


def _is_local(environ: dict[str, Any]) -> bool:
    """Return whether a local program sends the request, and no web page."""
    host = urlsplit(f"//{environ.get('HTTP_HOST', '')}").hostname or ""
    return "HTTP_ORIGIN" not in environ and (host in LOOPBACK or host.endswith(".localhost"))


def _close_connection(environ: dict[str, Any]) -> None:
    """Close the connection without an answer, as a broken network does."""
    connection: socket.socket | None = environ.get("werkzeug.socket")
    if connection is not None:
        connection.shutdown(socket.SHUT_RDWR)
