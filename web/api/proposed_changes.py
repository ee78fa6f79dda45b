"""Answer to a change of a managed resource that becomes a commit of a branch."""

from typing import Any

from rest_framework import serializers
from rest_framework.response import Response

from web.managed_resources import ChangeProposed


class ProposedChangeDocument(serializers.Serializer[Any]):
    """Edit of a resource that a Git sync manages: where it is committed, and what came of it."""

    id = serializers.UUIDField()
    git_sync = serializers.IntegerField()
    kind = serializers.CharField()
    scope = serializers.CharField()
    parent_identifier = serializers.CharField(help_text="Such as the environment of an infrastructure.")
    identifier = serializers.CharField()
    file = serializers.CharField()
    branch = serializers.CharField()
    state = serializers.ChoiceField(
        choices=[("PENDING", "Waiting for the push"), ("PUSHED", "Pushed"), ("FAILED", "Failed")]
    )
    commit = serializers.CharField(help_text="Empty until it is pushed.")
    reason = serializers.CharField(help_text="Why it failed.")
    link = serializers.CharField(help_text="Page of the commit or comparison, on GitHub and GitLab.")
    proposed_by = serializers.IntegerField(allow_null=True)
    created_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)


def respond_with_proposal(proposed: ChangeProposed) -> Response:
    """Store a proposal, and return 202 with its facts. Call it outside of the transaction of the change."""
    return Response(ProposedChangeDocument(dict(proposed.store())).data, status=202)
