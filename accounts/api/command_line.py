"""API that exchanges the one-time code of a command line for an API key."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.api_keys import KeyDocument
from accounts.command_line_codes import exchange_code
from guards.limits import COMMAND_LINE_CODES_PER_ADDRESS
from rbac.usage_counts import counts
from web.api.views import BaseApiView
from web.http.problems import TooManyRequests

CODE_CHARACTERS = 4096


class CodeInput(serializers.Serializer[Any]):
    """Code of the page that signs a command line in, and the verifier of its challenge (RFC 7636)."""

    code = serializers.CharField(max_length=CODE_CHARACTERS)
    verifier = serializers.CharField(min_length=43, max_length=128)


class SignedInDocument(KeyDocument):
    """API key of a command line with its token and user."""

    key = serializers.CharField()
    username = serializers.CharField()


class CommandLineSignIns(BaseApiView):
    """Sign-in of a command line. The code is the authentication, so no API key is needed."""

    authentication_classes = ()
    permission_classes = ()
    throttle_classes = []

    @extend_schema(auth=[], request=CodeInput, responses={201: SignedInDocument})
    def post(self, request: Request) -> Response:
        address = request.META.get("REMOTE_ADDR", "")
        if counts.increment(f"command-line:{address}", seconds=60) > COMMAND_LINE_CODES_PER_ADDRESS:
            raise TooManyRequests("Too many sign-ins from your address. Wait one minute.")
        key, token = exchange_code(**self.get_validated_body(CodeInput))
        content = {**KeyDocument(key).data, "key": token, "username": key.user.get_username()}
        return Response(content, status=201, headers={"Cache-Control": "no-store"})
