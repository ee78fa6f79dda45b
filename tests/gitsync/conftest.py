"""A sync of the project that follows a folder of a real repository, and passes of a worker."""

import hashlib
import hmac
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from catalog.models import Environment
from catalog.operations import EnvironmentSpec, update_environment
from connectors.models import Connector
from gitsync.models import GitSync
from gitsync.operations import GitSyncSpec, create_git_sync
from gitsync.passes import advance_sync
from notifications.models import NotificationRule
from rbac.models import Role, RoleAssignment, Scope, ServiceAccount, User
from rbac.operations import create_service_account
from tests.fixtures.git import GitServer
from web.clock import get_database_time

ENVIRONMENT = """kind: Environment
identifier: test
spec: {name: Test}
---
kind: Infrastructure
identifier: main
spec: {environment: test, name: Main, connector: aws, region: us-east-1, cluster: demo}
"""
SERVICE = """kind: Service
identifier: web
spec:
  name: Web
  artifact: {image: nginx, tag: "1.28"}
"""
PIPELINE = """kind: Pipeline
identifier: release
spec:
  yaml: |
    pipeline:
      identifier: release
      name: Release
      stages:
        - stage:
            identifier: deploy
            type: Deployment
            spec:
              deploymentType: ECS
              service: {serviceRef: web}
              environment:
                environmentRef: test
                infrastructureDefinitions: [{identifier: main}]
              execution:
                steps:
                  - step: {identifier: roll, type: EcsRollingDeploy, timeout: 10m}
"""
FILES = {
    "slipway/environments.yaml": ENVIRONMENT,
    "slipway/services/web.yml": SERVICE,
    "slipway/release.yaml": PIPELINE,
    "slipway/README.md": "kind: [",
    "other/service.yaml": SERVICE.replace("web", "other"),
}
RunPass = Callable[[], GitSync]


def send_push(key: Any, secret: str, ref: str = "refs/heads/main") -> HttpResponse:
    """Send a push to the webhook with this key, as GitHub does."""
    payload = {"ref": ref, "before": "1" * 40, "after": "2" * 40, "head_commit": {"id": "2" * 40}}
    body = json.dumps(payload)
    digest = hmac.new(secret.encode(), body.encode(), hashlib.sha256).hexdigest()
    headers = {"X-Hub-Signature-256": f"sha256={digest}", "X-GitHub-Event": "push"}
    address = f"/hooks/v1/git-syncs/{key}/"
    return Client().post(address, body, content_type="application/json", headers=headers)


@pytest.fixture
def account_of_git(admin: User, project: Scope) -> ServiceAccount:
    """A service account that administers the project."""
    account = create_service_account(actor=admin, scope=project, name="Git", identifier="git")
    role = Role.objects.get(identifier="project_admin", scope=None)
    RoleAssignment.objects.create(user=account.user, role=role, scope=project)
    return account


@pytest.fixture
def git_sync(git_server: GitServer, admin: User, project: Scope, account_of_git: ServiceAccount) -> GitSync:
    """A sync of the branch main of a repository with an environment, a service and a pipeline."""
    connector = Connector.objects.create(
        scope=project, identifier="repository", name="Repository", kind="Git", spec={"url": git_server.url}
    )
    Connector.objects.create(
        scope=project, identifier="aws", name="AWS", spec={"credentials": "InheritFromDelegate"}
    )
    git_server.commit(FILES)
    spec = GitSyncSpec("Demo", connector, account_of_git, branch="main", folder="slipway")
    return create_git_sync(actor=admin, scope=project, identifier="demo", spec=spec)


@pytest.fixture
def rule_of_git_syncs(project: Scope) -> NotificationRule:
    """A notification rule of the project for the events of its syncs."""
    return NotificationRule.objects.create(
        scope=project,
        identifier="room",
        name="Room",
        events=["gitsync.failed", "gitsync.recovered"],
        url="https://example.com/hook",
        host="example.com",
    )


def change_while_disabled(sync: GitSync, admin: User) -> None:
    """Rename the environment of the sync by hand, while the sync is disabled."""
    GitSync.objects.filter(pk=sync.pk).update(is_enabled=False, due_at=None)
    update_environment(
        actor=admin, environment=Environment.objects.get(), spec=EnvironmentSpec(name="By hand")
    )
    GitSync.objects.filter(pk=sync.pk).update(is_enabled=True, due_at=get_database_time())


@pytest.fixture
def run_pass(git_sync: GitSync) -> RunPass:
    """Make a pass, as a worker makes it when the sync is due."""

    def run() -> GitSync:
        git_sync.refresh_from_db()
        assert git_sync.due_at
        assert advance_sync(git_sync.pk, max(git_sync.due_at, get_database_time()))
        git_sync.refresh_from_db()
        return git_sync

    return run
