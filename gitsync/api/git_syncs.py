"""API of Git syncs."""

from typing import Any
from uuid import UUID

from django.db import transaction
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from connectors.models import Connector
from gitsync import operations
from gitsync.models import GitSync, GitSyncHook, GitSyncProposal, GitSyncResource, GitSyncRun
from gitsync.operations import VIEW, GitSyncSpec, list_git_syncs
from gitsync.proposals.recording import build_document
from gitsync.pushes import build_hook_address
from gitsync.queries import hide_difference, list_viewable_kinds
from rbac.models import ServiceAccount
from web.api.parameters import IF_MATCH_PARAMETER, LIST_PARAMETERS, PAGE_PARAMETERS
from web.api.proposed_changes import ProposedChangeDocument
from web.api.views import BaseApiView, check_version, respond_with_etag


class GitSyncDocument(serializers.Serializer[Any]):
    """Git sync with its state."""

    id = serializers.IntegerField()
    identifier = serializers.CharField()
    name = serializers.CharField()
    scope = serializers.CharField(source="scope.path")
    org = serializers.CharField(source="scope.org")
    project = serializers.CharField(source="scope.project")
    connector = serializers.IntegerField(source="connector_id", allow_null=True)
    repository = serializers.CharField(help_text="Below the URL of the connector; empty for its own URL.")
    branch = serializers.CharField()
    folder = serializers.CharField(help_text="Empty for the whole repository.")
    service_account = serializers.IntegerField(source="service_account_id", allow_null=True)
    prunes = serializers.BooleanField(help_text="Whether removed documents delete their resources.")
    edits_branch = serializers.CharField(help_text="Branch that edits are committed to; empty: refused.")
    is_enabled = serializers.BooleanField()
    state = serializers.ChoiceField(choices=GitSync.State.choices)
    seen_commit = serializers.CharField(help_text="Newest commit of the branch.")
    applied_commit = serializers.CharField()
    checked_at = serializers.DateTimeField(allow_null=True)
    applied_at = serializers.DateTimeField(allow_null=True)
    version = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class GitSyncChange(serializers.Serializer[Any]):
    """Fields of a Git sync except its identifier."""

    name = serializers.CharField(max_length=128)
    connector = serializers.IntegerField(min_value=1, help_text="Connector to Git.")
    repository = serializers.CharField(max_length=255, allow_blank=True, default="")
    branch = serializers.CharField(max_length=255)
    folder = serializers.CharField(max_length=255, allow_blank=True, default="")
    service_account = serializers.IntegerField(min_value=1, help_text="Changes are made with its rights.")
    prunes = serializers.BooleanField(default=False)
    edits_branch = serializers.CharField(
        max_length=255,
        allow_blank=True,
        default="",
        help_text="Branch that edits of its resources are committed to, or a prefix that ends with a slash. "
        "Empty: edits are refused.",
    )
    is_enabled = serializers.BooleanField(default=True)


class GitSyncInput(GitSyncChange):
    """Fields of a new Git sync."""

    identifier = serializers.CharField(max_length=128)
    org = serializers.CharField(required=False, write_only=True)
    project = serializers.CharField(required=False, write_only=True)


class GitSyncResourceDocument(serializers.Serializer[Any]):
    """Resource that a Git sync manages."""

    path = serializers.CharField()
    line = serializers.IntegerField()
    kind = serializers.CharField()
    scope = serializers.CharField(source="place")
    parent_identifier = serializers.CharField(
        source="parent", help_text="Such as the environment of an infrastructure."
    )
    identifier = serializers.CharField(source="resource")
    state = serializers.ChoiceField(choices=GitSyncResource.State.choices)
    commit = serializers.CharField(help_text="Last applied commit.")
    difference = serializers.CharField(
        help_text="Unified diff from Slipway to Git; empty without permission to view the resource."
    )


class GitSyncFaultDocument(serializers.Serializer[Any]):
    """Fault of a file; line and column are 0 without a place."""

    file = serializers.CharField()
    line = serializers.IntegerField()
    column = serializers.IntegerField()
    message = serializers.CharField()


class GitSyncRunDocument(serializers.Serializer[Any]):
    """Application of a commit, or why it was refused."""

    id = serializers.IntegerField()
    commit = serializers.CharField()
    requested_by = serializers.IntegerField(source="requested_by_id", allow_null=True)
    cause = serializers.ChoiceField(choices=GitSync.Cause.choices)
    result = serializers.ChoiceField(choices=GitSyncRun.Result.choices)
    created = serializers.IntegerField()
    changed = serializers.IntegerField()
    deleted = serializers.IntegerField()
    faults = GitSyncFaultDocument(many=True)
    started_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField()


class GitSyncHookInput(serializers.Serializer[Any]):
    """Provider that sends the pushes."""

    provider = serializers.ChoiceField(choices=GitSyncHook.Provider.choices)


class GitSyncHookDocument(serializers.Serializer[Any]):
    """Webhook of a Git sync."""

    address = serializers.CharField()
    provider = serializers.ChoiceField(choices=GitSyncHook.Provider.choices)
    secret = serializers.CharField()


class GitSyncView(BaseApiView):
    """Base of the routes of one Git sync."""

    def get_git_sync(self, pk: int, *, lock: bool = False) -> GitSync:
        """Return the sync in the URL. Raises `NotVisible` (404)."""
        return self.get_visible(VIEW, list_git_syncs(), lock=lock, pk=pk)

    def build_spec(self, body: dict[str, Any]) -> GitSyncSpec:
        """Return the fields of a body; an unknown connector or service account counts as none."""
        accounts = ServiceAccount.objects.select_related("scope", "user")
        connectors = Connector.objects.select_related("scope", "secret__scope")
        names = ("name", "repository", "branch", "folder", "prunes", "edits_branch", "is_enabled")
        return GitSyncSpec(
            connector=connectors.filter(pk=body["connector"]).first(),
            service_account=accounts.filter(pk=body["service_account"]).first(),
            **{name: body[name] for name in names},
        )


class GitSyncListView(GitSyncView):
    """Git syncs."""

    @extend_schema(parameters=LIST_PARAMETERS, responses=GitSyncDocument(many=True))
    def get(self, request: Request) -> Response:
        return self.list_visible(VIEW, list_git_syncs(), GitSyncDocument)

    @extend_schema(request=GitSyncInput, responses={201: GitSyncDocument})
    def post(self, request: Request) -> Response:
        body, scope = self.get_validated_body(GitSyncInput), self.get_named_scope()
        sync = operations.create_git_sync(
            actor=self.principal, scope=scope, identifier=body["identifier"], spec=self.build_spec(body)
        )
        return respond_with_etag(GitSyncDocument(sync).data, sync.version, status=201)


class GitSyncDetailView(GitSyncView):
    """One Git sync."""

    @extend_schema(responses=GitSyncDocument)
    def get(self, request: Request, pk: int) -> Response:
        sync = self.get_git_sync(pk)
        return respond_with_etag(GitSyncDocument(sync).data, sync.version)

    @extend_schema(parameters=[IF_MATCH_PARAMETER], request=GitSyncChange, responses=GitSyncDocument)
    def put(self, request: Request, pk: int) -> Response:
        sync = self.get_git_sync(pk)
        check_version(request, sync.version)
        spec = self.build_spec(self.get_validated_body(GitSyncChange))
        saved = operations.update_git_sync(actor=self.principal, sync=sync, spec=spec, version=sync.version)
        return respond_with_etag(GitSyncDocument(saved).data, saved.version)

    @extend_schema(parameters=[IF_MATCH_PARAMETER], responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        with transaction.atomic():
            sync = self.get_git_sync(pk, lock=True)
            check_version(request, sync.version)
            operations.delete_git_sync(actor=self.principal, sync=sync)
        return Response(status=204)


class GitSyncRequestView(GitSyncView):
    """Application of the newest commit now, also if it was applied before."""

    @extend_schema(request=None, responses={202: GitSyncDocument})
    def post(self, request: Request, pk: int) -> Response:
        operations.request_sync(actor=self.principal, sync=self.get_git_sync(pk))
        return Response(GitSyncDocument(self.get_git_sync(pk)).data, status=202)


class GitSyncHookView(GitSyncView):
    """Webhook of a Git sync with a new secret, which is shown once; an older secret stops working."""

    one_time_field = "secret"

    @extend_schema(request=GitSyncHookInput, responses={201: GitSyncHookDocument})
    def post(self, request: Request, pk: int) -> Response:
        body = self.get_validated_body(GitSyncHookInput)
        hook, secret = operations.set_up_hook(
            actor=self.principal, sync=self.get_git_sync(pk), provider=body["provider"]
        )
        document = {"address": build_hook_address(hook), "provider": hook.provider, "secret": secret}
        return Response(GitSyncHookDocument(document).data, status=201)


class GitSyncResourceListView(GitSyncView):
    """Resources of a Git sync, with their differences."""

    @extend_schema(parameters=PAGE_PARAMETERS, responses=GitSyncResourceDocument(many=True))
    def get(self, request: Request, pk: int) -> Response:
        sync = self.get_git_sync(pk)
        kinds = list_viewable_kinds(sync, self.principal)
        rows = GitSyncResource.objects.filter(sync=sync)
        return self.paginate(rows, lambda row: GitSyncResourceDocument(hide_difference(row, kinds)))


class GitSyncRunListView(GitSyncView):
    """Runs of a Git sync, newest first."""

    @extend_schema(parameters=PAGE_PARAMETERS, responses=GitSyncRunDocument(many=True))
    def get(self, request: Request, pk: int) -> Response:
        sync = self.get_git_sync(pk)
        return self.paginate(GitSyncRun.objects.filter(sync=sync), GitSyncRunDocument)


class GitSyncProposalListView(GitSyncView):
    """Edits of resources of a Git sync in Slipway, newest first."""

    order = "created_at"

    @extend_schema(parameters=PAGE_PARAMETERS, responses=ProposedChangeDocument(many=True))
    def get(self, request: Request, pk: int) -> Response:
        rows = GitSyncProposal.objects.filter(sync=self.get_git_sync(pk)).select_related("sync__connector")
        return self.paginate(rows, lambda row: ProposedChangeDocument(build_document(row)))


class GitSyncProposalView(GitSyncView):
    """One edit of a resource of a Git sync in Slipway."""

    @extend_schema(responses=ProposedChangeDocument)
    def get(self, request: Request, pk: int, proposal: UUID) -> Response:
        rows = GitSyncProposal.objects.select_related("sync__connector")
        row = self.get_row(rows, sync=self.get_git_sync(pk), pk=proposal)
        return Response(ProposedChangeDocument(build_document(row)).data)
