"""Internal client that calls other services of the account without faults and journal."""

import io
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import botocore.session
from botocore.awsrequest import AWSResponse, HeadersDict
from botocore.config import Config
from botocore.exceptions import ClientError, ParamValidationError
from werkzeug.test import EnvironBuilder

from sandbox.aws_protocol import AwsHttpResponse
from sandbox.services.cloudformation.templates import ResourceFailed

SendRequest = Callable[[dict[str, Any], bytes], AwsHttpResponse]
_CONFIG = Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1})


class _RawBody(io.BytesIO):
    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self.read()


class InternalClient:
    """A client of the account's own services."""

    def __init__(self) -> None:
        self._forward: SendRequest | None = None
        self._clients: dict[tuple[str, str, str], Any] = {}

    def open(self, forward: SendRequest) -> None:
        """Set the handler of the calls."""
        self._forward = forward

    def call(
        self, key: str, region: str, service: str, operation: str, params: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Send a call with an access key. Raises `ResourceFailed` with the service's message."""
        client = self._client(key, region, service)
        try:
            answer = client._make_api_call(operation, dict(params))
        except ClientError as refused:
            error = refused.response["Error"]
            raise ResourceFailed(
                f'Resource handler returned message: "{error.get("Message")} (Service: {service}, Code: '
                f'{error.get("Code")})" (HandlerErrorCode: GeneralServiceException)'
            ) from refused
        except ParamValidationError as bad:
            report = " ".join(str(bad.kwargs.get("report", bad)).split())
            raise ResourceFailed(f"Properties validation failed: {report}") from bad
        if "Body" in answer:
            answer["Body"] = answer["Body"].read()
        return {name: value for name, value in answer.items() if name != "ResponseMetadata"}

    def _client(self, key: str, region: str, service: str) -> Any:
        client = self._clients.get((key, region, service))
        if client is None:
            client = botocore.session.get_session().create_client(
                service,
                region_name=region,
                endpoint_url="http://127.0.0.1",
                aws_access_key_id=key,
                aws_secret_access_key="within",  # noqa: S106  -- the sandbox checks none
                config=_CONFIG,
            )
            client.meta.events.register("before-send.*.*", self._send)
            self._clients[key, region, service] = client
        return client

    def _send(self, request: Any, **_: Any) -> Any:
        body = request.body or b""
        if hasattr(body, "read"):
            body = body.read()
        body = body.encode() if isinstance(body, str) else bytes(body)
        headers = [(name, _decode(value)) for name, value in request.headers.items()]
        environ = EnvironBuilder(path=request.url, method=request.method, headers=headers, data=body)
        if self._forward is None:
            raise ResourceFailed("The account is not open yet.")
        answer = self._forward(environ.get_environ(), body)
        return AWSResponse(
            request.url, answer.status, cast("Any", HeadersDict(dict(answer.headers))), _RawBody(answer.body)
        )


def _decode(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode()
