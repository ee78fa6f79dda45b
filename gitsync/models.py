"""Git syncs, the resources that they manage, and their runs."""

import uuid
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q

from connectors.models import Connector
from delegates.models import LookupRequest
from rbac.encrypted_fields import EncryptedTextField
from rbac.models import Scope, ServiceAccount
from rbac.models.scopes import IDENTIFIER_PATTERN, validate_identifier


class GitSync(models.Model):
    """A folder of a Git branch that resources of a scope follow, with the rights of a service account.

    Only passes write the columns from `due_at` on; operations may bring `due_at` forward.
    """

    class State(models.TextChoices):
        """State of the resources, compared with the newest commit."""

        PENDING = "PENDING", "Waiting for the first sync"
        SYNCED = "SYNCED", "In sync"
        OUT_OF_SYNC = "OUT_OF_SYNC", "Out of sync"
        FAILED = "FAILED", "Failed"

    class Cause(models.TextChoices):
        """Cause of a pass."""

        POLL = "POLL", "Poll"
        PUSH = "PUSH", "Push"
        PERSON = "PERSON", "Person"

    SCOPE_PATH: ClassVar[str] = "scope"
    RESOURCE_TYPE: ClassVar[str] = "gitsync"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"gitsync": "identifier"}

    scope = models.ForeignKey(Scope, on_delete=models.PROTECT, related_name="git_syncs")
    identifier = models.CharField(max_length=128, validators=[validate_identifier])
    name = models.CharField(max_length=128)
    # Without a connector or an account, as after their deletion, every pass fails.
    connector = models.ForeignKey(Connector, null=True, on_delete=models.SET_NULL, related_name="git_syncs")
    # Below the URL of the connector, if that is an account's.
    repository = models.CharField(max_length=255, blank=True, default="")
    branch = models.CharField(max_length=255)
    folder = models.CharField(max_length=255, blank=True, default="")
    service_account = models.ForeignKey(
        ServiceAccount, null=True, on_delete=models.SET_NULL, related_name="git_syncs"
    )
    # Whether resources whose document was removed are deleted.
    prunes = models.BooleanField(default=False)
    # Branch that edits of its resources are committed to; ends with / for one of their own. Empty: refused.
    edits_branch = models.CharField(max_length=255, blank=True, default="", db_default="")
    is_enabled = models.BooleanField(default=True)
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    # None while it is disabled.
    due_at = models.DateTimeField(null=True, editable=False)
    # Why it is due.
    cause = models.CharField(
        max_length=16, choices=Cause, default=Cause.POLL, db_default=Cause.POLL, editable=False
    )
    lease_expires_at = models.DateTimeField(null=True, editable=False)
    fence = models.PositiveBigIntegerField(default=0, editable=False)
    # Someone asked to apply the newest commit, although it was applied before.
    is_requested = models.BooleanField(default=False, editable=False)
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+", editable=False
    )
    # The fetch by a delegate that a pass waits for.
    lookup = models.ForeignKey(
        LookupRequest, null=True, on_delete=models.SET_NULL, related_name="+", editable=False
    )
    state = models.CharField(max_length=16, choices=State, default=State.PENDING, editable=False)
    # The newest commit of the branch, and the one that was applied last.
    seen_commit = models.CharField(max_length=64, blank=True, default="", editable=False)
    applied_commit = models.CharField(max_length=64, blank=True, default="", editable=False)
    checked_at = models.DateTimeField(null=True, editable=False)
    # Resources of its newest documents that another sync manages: [[kind, scope, identifier, parent]].
    claims = models.JSONField(default=list, blank=True, db_default=[], editable=False)
    applied_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["scope", "identifier"], name="git_sync_unique_in_scope"),
            models.CheckConstraint(
                condition=Q(identifier__regex=IDENTIFIER_PATTERN), name="git_sync_identifier_is_valid"
            ),
            models.CheckConstraint(
                condition=Q(is_enabled=True, due_at__isnull=False) | Q(is_enabled=False, due_at=None),
                name="git_sync_enabled_has_due_at",
            ),
        ]
        indexes = [
            models.Index(fields=["due_at"], name="git_sync_due", condition=Q(due_at__isnull=False)),
        ]

    def __str__(self) -> str:
        return self.identifier


class GitSyncResource(models.Model):
    """A resource that a sync has brought in, with its document.

    Kind, scope, parent and identifier are those of the document, since the resource may be deleted.
    """

    class State(models.TextChoices):
        """The resource, compared with its document of the newest commit."""

        SYNCED = "SYNCED", "In sync"
        OUT_OF_SYNC = "OUT_OF_SYNC", "Out of sync"
        REMOVED = "REMOVED", "No longer in Git"

    SCOPE_PATH: ClassVar[str] = "sync__scope"
    RESOURCE_TYPE: ClassVar[str] = "gitsync"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"gitsync": "sync__identifier"}

    sync = models.ForeignKey(GitSync, on_delete=models.CASCADE, related_name="resources")
    path = models.CharField(max_length=400)
    line = models.PositiveIntegerField()
    kind = models.CharField(max_length=32)
    place = models.CharField(max_length=400)
    parent = models.CharField(max_length=128, blank=True, default="")
    resource = models.CharField(max_length=128)
    state = models.CharField(max_length=16, choices=State, default=State.SYNCED)
    # The last commit that was applied to it.
    commit = models.CharField(max_length=64)
    # Unified diff from Slipway to Git; empty for a resource in sync.
    difference = models.TextField(blank=True, default="")

    class Meta:
        constraints = [
            # Two syncs would overwrite each other's changes.
            models.UniqueConstraint(
                fields=["kind", "place", "parent", "resource"], name="git_sync_resource_has_one_sync"
            ),
        ]
        indexes = [
            models.Index(fields=["sync", "path", "line"], name="git_sync_resource_path"),
        ]

    def __str__(self) -> str:
        name = f"{self.parent}/{self.resource}" if self.parent else self.resource
        return f"{self.kind} {name}"

    @property
    def scope(self) -> Scope:
        return self.sync.scope


class GitSyncRun(models.Model):
    """The application of a commit, or why it was refused as a whole.

    `faults` are JSON objects {"file", "line", "column", "message"}.
    """

    class Result(models.TextChoices):
        """What came of a run."""

        APPLIED = "APPLIED", "Applied"
        FAILED = "FAILED", "Failed"

    SCOPE_PATH: ClassVar[str] = "sync__scope"
    RESOURCE_TYPE: ClassVar[str] = "gitsync"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"gitsync": "sync__identifier"}

    sync = models.ForeignKey(GitSync, on_delete=models.CASCADE, related_name="runs")
    commit = models.CharField(max_length=64, blank=True, default="")
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    cause = models.CharField(
        max_length=16, choices=GitSync.Cause, default=GitSync.Cause.POLL, db_default=GitSync.Cause.POLL
    )
    result = models.CharField(max_length=16, choices=Result)
    created = models.PositiveIntegerField(default=0)
    changed = models.PositiveIntegerField(default=0)
    deleted = models.PositiveIntegerField(default=0)
    faults = models.JSONField(default=list)
    started_at = models.DateTimeField()
    # Of a run with the same faults, the end of the last repetition.
    ended_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["sync", "-id"], name="git_sync_run_newest")]

    def __str__(self) -> str:
        return f"{self.sync} at {self.commit[:12] or 'no commit'}"

    @property
    def scope(self) -> Scope:
        return self.sync.scope


class GitSyncProposal(models.Model):
    """An edit of a managed resource in Slipway, which a worker commits and pushes.

    `before` and `after` are complete specs as of documents. Only workers write the columns from `state` on.
    """

    class State(models.TextChoices):
        """State of a proposal."""

        PENDING = "PENDING", "Waiting for the push"
        PUSHED = "PUSHED", "Pushed"
        FAILED = "FAILED", "Failed"

    SCOPE_PATH: ClassVar[str] = "sync__scope"
    RESOURCE_TYPE: ClassVar[str] = "gitsync"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"gitsync": "sync__identifier"}

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    sync = models.ForeignKey(GitSync, on_delete=models.CASCADE, related_name="proposals")
    kind = models.CharField(max_length=32)
    place = models.CharField(max_length=400)
    parent = models.CharField(max_length=128, blank=True, default="")
    resource = models.CharField(max_length=128)
    path = models.CharField(max_length=400)
    branch = models.CharField(max_length=400)
    proposed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    before = models.JSONField(default=dict)
    after = models.JSONField(default=dict)
    # Unified diff from the stored resource to the proposed one; of a conflict, to the document of the branch.
    difference = models.TextField(blank=True, default="")
    created_at = models.DateTimeField()
    state = models.CharField(max_length=16, choices=State, default=State.PENDING)
    reason = models.CharField(max_length=1000, blank=True, default="")
    commit = models.CharField(max_length=64, blank=True, default="")
    attempts = models.PositiveIntegerField(default=0)
    # None once it has ended.
    due_at = models.DateTimeField(null=True)
    lease_expires_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(state="PENDING", due_at__isnull=False) | ~Q(state="PENDING") & Q(due_at=None),
                name="git_sync_proposal_pending_has_due_at",
            ),
        ]
        indexes = [
            models.Index(fields=["sync", "-created_at"], name="git_sync_proposal_newest"),
            models.Index(fields=["due_at"], name="git_sync_proposal_due", condition=Q(due_at__isnull=False)),
        ]

    def __str__(self) -> str:
        name = f"{self.parent}/{self.resource}" if self.parent else self.resource
        return f"{self.kind} {name}"

    @property
    def scope(self) -> Scope:
        return self.sync.scope


class GitSyncHook(models.Model):
    """Address that a Git provider sends pushes to; `key` is its public part."""

    class Provider(models.TextChoices):
        """Sender of pushes, as the trigger kind `git` knows it."""

        GITHUB = "github", "GitHub"
        GITLAB = "gitlab", "GitLab"
        BITBUCKET = "bitbucket", "Bitbucket"
        PLAIN = "plain", "Another, by a hook"

    SCOPE_PATH: ClassVar[str] = "sync__scope"
    RESOURCE_TYPE: ClassVar[str] = "gitsync"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"gitsync": "sync__identifier"}

    sync = models.OneToOneField(GitSync, on_delete=models.CASCADE, related_name="hook")
    key = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    provider = models.CharField(max_length=16, choices=Provider, default=Provider.GITHUB)
    secret = EncryptedTextField(bound_to=["key"])
    # The last push to the branch of the sync.
    pushed_at = models.DateTimeField(null=True, editable=False)

    def __str__(self) -> str:
        return f"webhook of {self.sync}"

    @property
    def scope(self) -> Scope:
        return self.sync.scope
