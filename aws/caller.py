"""Caller protocol for AWS operations, and the caller that makes calls with boto3."""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from botocore import xform_name
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from aws.clients import Credentials, Endpoint, get_client
from aws.errors import AwsError, NotSent, Throttled, Unanswered
from aws.operations import is_write
from aws.responses import convert_error, convert_to_json
from guards.address_policy import PRIVATE_ALLOWED, AddressPolicy
from guards.metrics import AWS_CALL_SECONDS, AWS_CALLS

__all__ = ["BotoCaller", "CallPending", "Caller"]

READ_TRIES = 3
# A pass has 30 seconds in all, so a hanging read is not retried for ever.
READ_BUDGET_SECONDS = 12.0


class Caller(Protocol):
    """Caller of AWS operations, in this process or through a delegate."""

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send one call and return its result as JSON, without `ResponseMetadata`.

        Raises `AwsError`; raises `CallPending` if the answer comes later.
        """


class CallPending(Exception):
    """Error raised when the call is queued and has no answer yet; retry after the wake-up."""


@dataclass(frozen=True)
class BotoCaller:
    """Makes calls with boto3 in this process: reads are tried three times, writes are sent once."""

    credentials: Credentials
    region: str
    endpoint_url: str | None = None
    address_policy: AddressPolicy = PRIVATE_ALLOWED
    """Where an endpoint of one's own may lead."""
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False, compare=False)

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        attempts = 1 if is_write(service, operation) else READ_TRIES
        started = time.monotonic()
        for attempt in range(1, attempts + 1):
            try:
                return self._send(service, operation, params)
            except AwsError as error:
                elapsed = time.monotonic() - started
                if not error.is_retryable or attempt == attempts or elapsed > READ_BUDGET_SECONDS:
                    raise
                self.sleep(_jitter(attempt))
        raise AssertionError("a call ends with a result or an error")

    @property
    def _endpoint(self) -> Endpoint | None:
        return Endpoint(self.endpoint_url, self.address_policy) if self.endpoint_url else None

    def _send(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        result = "ok"
        with AWS_CALL_SECONDS.labels(service).time():
            try:
                return self._send_once(service, operation, params)
            except AwsError as error:
                result = _get_result(error)
                raise
            finally:
                AWS_CALLS.labels(service, operation, result).inc()

    def _send_once(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        client = None
        try:
            client = get_client(self.credentials, self.region, self._endpoint, service)
            response = getattr(client, xform_name(operation))(**params)
            return {
                key: convert_to_json(value) for key, value in response.items() if key != "ResponseMetadata"
            }
        except (ClientError, BotoCoreError, ResponseParserError) as error:
            raise convert_error(error, service, operation) from error
        except Exception as error:
            # Whatever failed, AWS may have the write already. A read has no effect to look up.
            if client is None or isinstance(error, AwsError) or not is_write(service, operation):
                raise
            raise convert_error(error, service, operation) from error


def _get_result(error: AwsError) -> str:
    for kind, result in ((Throttled, "throttled"), (NotSent, "not_sent"), (Unanswered, "unanswered")):
        if isinstance(error, kind):
            return result
    return "refused"


def _jitter(attempt: int) -> float:
    return random.uniform(0.1, 0.4 * 2**attempt)  # noqa: S311  -- spreads retries, guards nothing


# Far above the size of any account. A response that repeats its token must not block a worker for ever.
MAX_PAGES = 200


def paginate(
    caller: Caller,
    service: str,
    operation: str,
    params: Mapping[str, Any],
    *,
    result_key: str,
    cursor_key: str,
    response_cursor_key: str = "",
) -> Iterator[Any]:
    """Yield the items under `result_key` on every page.

    `cursor_key` names the page token in request and response; `response_cursor_key` is set where the
    response uses another name.
    """
    request = dict(params)
    for _ in range(MAX_PAGES):
        response = caller.call(service, operation, request)
        yield from response.get(result_key) or ()
        token = response.get(response_cursor_key or cursor_key)
        if not token or token == request.get(cursor_key):
            return
        request[cursor_key] = token
    raise Unanswered("TooManyPages", f"more than {MAX_PAGES} pages were returned", service, operation)


T = TypeVar("T")


def split_batches(items: Sequence[T], size: int) -> Iterator[list[T]]:
    """Yield the items in lists of at most `size`, the limit of one AWS call."""
    for start in range(0, len(items), size):
        yield list(items[start : start + size])


def require_member(response: Mapping[str, Any], member: str, service: str, operation: str) -> Any:
    """Return a required member of a response.

    Raises `Unanswered` if it is missing: a truncated response does not show whether the call took effect.
    """
    if not response.get(member):
        raise Unanswered("UnreadableAnswer", f"the answer holds no {member}", service, operation)
    return response[member]
