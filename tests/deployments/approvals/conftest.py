"""Runs that wait for approval, in front of the sandbox, and the people who are asked."""

from dataclasses import dataclass
from typing import Any

import pytest
import yaml
from django.test import Client
from rest_framework.test import APIClient

from deployments.models import Approval, Execution
from rbac.models import Scope, User, UserGroup
from rbac.operations.api_keys import create_api_key
from tests.deployments.conftest import _full_buckets, drive
from tests.fixtures.engine_driver import Drive
from tests.fixtures.people import PASSWORD, make_person

__all__ = ["_full_buckets", "drive"]


@dataclass
class Panel:
    """A drive whose pipeline asks for approval, and the people around it."""

    drive: Drive
    group: UserGroup
    alice: User
    bob: User
    outsider: User

    def insert_approval(self, **spec: Any) -> None:
        """Insert an approval step with these fields before the deployment; `timeout` is the step's."""
        document = yaml.safe_load(self.drive.pipeline.yaml)
        stage_spec = document["pipeline"]["stages"][0]["stage"]["spec"]
        steps = stage_spec.pop("execution", {}).get("steps") or [
            {"step": {"type": "EcsRollingDeploy", "identifier": "deploy"}}
        ]
        steps = [entry for entry in steps if entry["step"]["type"] != "HarnessApproval"]
        stage_spec.pop("strategy", None)
        step = {"type": "HarnessApproval", "identifier": "ask", "timeout": spec.pop("timeout", "1h")}
        approvers = {"userGroups": ["ops"], **spec.pop("approvers", {})}
        strategies = spec.pop("failureStrategies", None)
        if strategies:
            step["failureStrategies"] = strategies
        approval_step = {"step": {**step, "spec": {"approvers": approvers, **spec}}}
        rollback = [{"step": {"type": "EcsRollingRollback", "identifier": "back"}}]
        stage_spec["execution"] = {"steps": [approval_step, *steps], "rollbackSteps": rollback}
        self.drive.pipeline.yaml = yaml.safe_dump(document, sort_keys=False)
        self.drive.pipeline.save(update_fields=["yaml"])

    def deploy_without_approval(self, tag: str) -> None:
        """Run a first deployment without the approval step."""
        approval_yaml = self.drive.pipeline.yaml
        document = yaml.safe_load(approval_yaml)
        document["pipeline"]["stages"][0]["stage"]["spec"]["execution"]["steps"].pop(0)
        self.drive.pipeline.yaml = yaml.safe_dump(document, sort_keys=False)
        self.drive.pipeline.save(update_fields=["yaml"])
        assert self.drive.run(tag).status == "SUCCESS"

    def start(self, tag: str = "1.27", **choices: Any) -> Execution:
        """Start a run and look at it until it waits."""
        execution = self.drive.start(tag, **choices)
        for _ in range(20):
            self.drive.pass_time(1)
            execution.refresh_from_db()
            if execution.status == "APPROVAL_WAITING":
                return execution
        raise AssertionError((execution.status, self.drive.log(execution)))

    def get_approval(self, execution: Execution) -> Approval:
        return Approval.objects.filter(execution=execution).order_by("-attempt")[0]

    def create_api_client(self, person: User) -> APIClient:
        """Create an API client of this person."""
        _, token = create_api_key(actor=person, user=person, name=f"program {person.api_keys.count()}")
        client = APIClient(raise_request_exception=False)
        client.credentials(HTTP_X_API_KEY=token)
        return client

    def decide(self, person: User, approval: Approval, verdict: str = "approve", **body: Any) -> Any:
        """Decide by the API about the current plan."""
        address = f"/api/v1/approvals/{approval.pk}/{verdict}"
        approval.refresh_from_db()
        return self.create_api_client(person).post(
            address, {"diff": approval.plan_hash, **body}, format="json"
        )

    def create_browser(self, person: User) -> Client:
        """Create a browser of this person."""
        client = Client()
        assert client.login(username=person.username, password=PASSWORD)
        return client


@pytest.fixture
def panel(drive: Drive) -> Panel:
    """Return a pipeline with an approval step, two approvers and an outsider."""
    scope = drive.pipeline.scope
    alice, bob, outsider = (make_person(name, "viewer", scope) for name in ("alice", "bob", "outsider"))
    group = UserGroup.objects.create(scope=Scope.objects.account(), identifier="ops", name="Operations")
    group.users.add(alice, bob)
    approval_panel = Panel(drive, group, alice, bob, outsider)
    approval_panel.insert_approval()
    return approval_panel
