"""API of invitations."""

from typing import Any

from django.db.models import Q, QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.forms.invitations import DEFAULT_EXPIRY_DAYS, EMAIL_CHARACTERS
from accounts.invitation_mails import send_invitation
from guards.limits import INVITATION_DAYS
from rbac import operations
from rbac.models import Invitation, Role, Scope
from rbac.policy import require
from web.api.idempotency import run_after_commit
from web.api.parameters import ORG_PARAMETER, PAGE_PARAMETERS, PROJECT_PARAMETER
from web.api.views import BaseApiView
from web.http.problems import BadInput

VIEW = "core_user_view"
MANAGE = "core_user_manage"


class InvitationDocument(serializers.Serializer[Any]):
    """Invitation with its recipient, scope and status."""

    id = serializers.IntegerField()
    email = serializers.CharField()
    role = serializers.CharField(source="role.identifier")
    scope = serializers.CharField(source="scope.path")
    state = serializers.ChoiceField(choices=Invitation.STATES)
    invited_by = serializers.CharField(source="invited_by.username", allow_null=True, default=None)
    accepted_by = serializers.CharField(source="accepted_by.username", allow_null=True, default=None)
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()


class SentDocument(InvitationDocument):
    """Invitation after the attempt to send its link; `is_sent` is true if the mail server accepted it."""

    is_sent = serializers.BooleanField()


class DaysInput(serializers.Serializer[Any]):
    """Validity of the link in days."""

    days = serializers.IntegerField(
        required=False, default=DEFAULT_EXPIRY_DAYS, min_value=1, max_value=int(INVITATION_DAYS)
    )


class InvitationInput(DaysInput):
    """Recipient, scope and role of a new invitation; the role is an identifier."""

    email = serializers.EmailField(max_length=EMAIL_CHARACTERS)
    role = serializers.CharField(max_length=128)
    scope = serializers.CharField(max_length=400)


class InvitationListView(BaseApiView):
    """Invitations."""

    @extend_schema(
        parameters=[ORG_PARAMETER, PROJECT_PARAMETER, *PAGE_PARAMETERS],
        responses=InvitationDocument(many=True),
    )
    def get(self, request: Request) -> Response:
        return self.list_visible(VIEW, _list_invitations(), InvitationDocument, by_identifier=False)

    @extend_schema(request=InvitationInput, responses={201: SentDocument})
    def post(self, request: Request) -> Response:
        data = self.get_validated_body(InvitationInput)
        scope = self.get_scope(data["scope"])
        # Checked first: the errors below reveal existing roles.
        require(self.principal, MANAGE, scope)
        invitation, token = operations.create_invitation(
            actor=self.principal,
            email=data["email"],
            scope=scope,
            role=_get_role(data["role"], scope),
            days=data["days"],
        )
        return _send_and_respond(invitation, token, status=201)


class InvitationDetailView(BaseApiView):
    """Invitation; deleting it revokes the link."""

    @extend_schema(responses=InvitationDocument)
    def get(self, request: Request, pk: int) -> Response:
        return Response(InvitationDocument(self.get_visible(VIEW, _list_invitations(), pk=pk)).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        invitation = self.get_visible(VIEW, _list_invitations(), pk=pk)
        operations.revoke_invitation(actor=self.principal, invitation=invitation)
        return Response(status=204)


class InvitationSendView(BaseApiView):
    """New link for an open invitation; the previous link becomes invalid."""

    @extend_schema(request=DaysInput, responses=SentDocument)
    def post(self, request: Request, pk: int) -> Response:
        invitation = self.get_visible(VIEW, _list_invitations(), pk=pk)
        days = self.get_validated_body(DaysInput)["days"]
        renewed, token = operations.renew_invitation(actor=self.principal, invitation=invitation, days=days)
        return _send_and_respond(renewed, token, status=200)


def _list_invitations() -> QuerySet[Invitation]:
    return Invitation.objects.select_related("scope", "role", "invited_by", "accepted_by")


def _send_and_respond(invitation: Invitation, token: str, *, status: int) -> Response:
    row = _list_invitations().get(pk=invitation.pk)
    row.is_sent = False  # type: ignore[attr-defined]
    response = Response(SentDocument(row).data, status=status)

    def send() -> None:
        response.data["is_sent"] = send_invitation(row, token)

    run_after_commit(send)
    return response


def _get_role(identifier: str, scope: Scope) -> Role:
    scope_filter = Q(scope=None) | Q(scope__path__in=scope.ancestor_paths())
    roles = Role.objects.filter(scope_filter, identifier=identifier).select_related("scope")
    role = roles.order_by("-builtin", "-scope__path").first()
    if role is None:
        raise BadInput(
            "The input is not valid.", errors=[{"path": "role", "message": "does not exist in this scope"}]
        )
    return role
