"""Conversion of boto3 responses and exceptions to JSON values and AwsError."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from botocore import exceptions as boto
from botocore.parsers import ResponseParserError

from aws.errors import (
    NOT_VISIBLE_CODE,
    PENDING_UPDATE_CODE,
    AwsError,
    Denied,
    Invalid,
    NotFound,
    NotSent,
    Throttled,
    Unanswered,
    Unauthenticated,
)
from guards.address_policy import AddressRefused

_THROTTLING_CODES = {
    "Throttling",
    "ThrottlingException",
    "ThrottledException",
    "RequestLimitExceeded",
    "RequestThrottled",
    "RequestThrottledException",
    "TooManyRequestsException",
    "SlowDown",
    "PriorRequestNotComplete",
    PENDING_UPDATE_CODE,
}
# It needs a scalable target, which callers register or read right before.
_NOT_VISIBLE_YET = ("PutScalingPolicy", NOT_VISIBLE_CODE)
_DENIED_CODES = {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "UnauthorizedException"}
_UNAUTHENTICATED_CODES = {
    "AuthFailure",
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteSignature",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "MissingAuthenticationToken",
    "MissingAuthenticationTokenException",
    "RequestExpired",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
}
_INVALID_CODES = {
    "ClientException",
    "ConflictException",
    "MissingParameter",
    "MalformedQueryString",
    "UnsupportedFeatureException",
}
# ECS reports both with ClientException.
_NOT_FOUND_MESSAGES = ("Unable to describe task definition", "The specified task definition does not exist")


def convert_to_json(value: Any) -> Any:
    """Return the value with all times as ISO 8601 texts in UTC with microseconds."""
    # Most are texts and numbers, and an answer has thousands.
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(key): convert_to_json(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [convert_to_json(inner) for inner in value]
    if isinstance(value, datetime):
        moment = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        return moment.isoformat(timespec="microseconds")
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value


def convert_error(error: Exception, service: str, operation: str) -> AwsError:
    """Return the `AwsError` of a botocore exception."""
    if isinstance(error, boto.ClientError):
        return _convert_client_error(error, service, operation)
    if isinstance(error, boto.ParamValidationError):
        return Invalid("ParamValidation", str(error.kwargs.get("report", error)), service, operation)
    if refusal := _get_address_refusal(error):
        return NotSent("AddressRefused", refusal, service, operation)
    error_class, code = _classify_exception(error)
    return error_class(code, str(error), service, operation)


def _get_address_refusal(error: Exception) -> str:
    """Return the endpoint guard's message, which botocore's exception omits."""
    cause = getattr(getattr(error, "kwargs", {}).get("error"), "__cause__", None)
    return str(cause) if isinstance(cause, AddressRefused) else ""


def _classify_exception(error: Exception) -> tuple[type[AwsError], str]:
    name = type(error).__name__
    if isinstance(error, boto.SSLError):
        # A certificate is refused before anything is sent; any other TLS failure may come after.
        is_untrusted = "CERTIFICATE_VERIFY_FAILED" in str(error)
        return (NotSent, "CertificateRefused") if is_untrusted else (Unanswered, name)
    if isinstance(error, boto.ConnectionError):
        # Name resolution, refused connection, connect time-out, proxy not reached.
        return NotSent, name
    if isinstance(error, boto.HTTPClientError | boto.IncompleteReadError | ResponseParserError):
        return Unanswered, name
    if isinstance(
        error,
        boto.NoCredentialsError
        | boto.PartialCredentialsError
        | boto.CredentialRetrievalError
        | boto.TokenRetrievalError
        | boto.ProfileNotFound,
    ):
        return Unauthenticated, name
    if isinstance(error, boto.ValidationError | boto.DataNotFoundError | boto.NoRegionError):
        return Invalid, name
    # botocore failed without a phase, so the request may have been sent.
    return Unanswered, name


def _convert_client_error(problem: boto.ClientError, service: str, operation: str) -> AwsError:
    error = problem.response.get("Error", {})
    status = problem.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400)
    code = str(error.get("Code") or "Unknown")
    message = str(error.get("Message") or error.get("message") or "")
    if code == str(status) and not message:
        # botocore uses the status as the code of a body without one. Its text is not for display.
        message = f"HTTP {status}, and the response is not from AWS. Check the endpoint of the connector"
    if (operation, code) == _NOT_VISIBLE_YET:
        return Throttled(code, message, service, operation)
    return _classify_error_code(code, message, status)(code, message, service, operation)


def _classify_error_code(code: str, message: str, status: int) -> type[AwsError]:
    if code in _THROTTLING_CODES or status == 429:
        return Throttled
    # A gateway's error page has no code, so the status is checked before any name.
    if status >= 500:
        return Unanswered
    for codes, kind in ((_DENIED_CODES, Denied), (_UNAUTHENTICATED_CODES, Unauthenticated)):
        if code in codes:
            return kind
    if "NotFound" in code or message.startswith(_NOT_FOUND_MESSAGES):
        return NotFound
    if code in _INVALID_CODES or code.startswith(("Invalid", "Validation", "Malformed")):
        return Invalid
    return AwsError
