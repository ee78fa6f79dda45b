"""What some addresses of rows are about, made where the world has none."""

import json
from typing import Any

from django.utils import timezone

from catalog.models import Service
from connectors.models import EventQueue, EventQueueSetup
from delegates.models import DelegateTask, LookupRequest
from inventory.models.adoption import Adoption
from inventory.models.drift import Drift, DriftComparison
from ops.acceptance.comparison import SANDBOX_FILE
from ops.models import AcceptanceRun
from pipelines.models import Pipeline
from rbac.models import AuditEntry, Role, User
from tests.api.sample_project import World
from tests.fixtures.delegates import make_task


def delegate_task(world: World) -> dict[str, Any]:
    """Return the key of an open delegate task of the world's project."""
    task = DelegateTask.objects.filter(scope=world.scope).order_by("queued_at").first()
    return {"pk": (task or make_task(world.scope)).pk}


def decision(world: World) -> dict[str, Any]:
    """To skip the step of an execution in which nothing waits for that."""
    return {"step": "ecsRollingDeploy", "decision": "SKIP"}


def acceptance_run(world: World) -> dict[str, Any]:
    """Return the key of an acceptance run that has ended, with what the sandbox does as its observations."""
    observations = json.loads(SANDBOX_FILE.read_text())
    run = AcceptanceRun.objects.first() or AcceptanceRun.objects.create(
        key="0123abcd",
        scope=world.scope,
        connector=world.connector,
        connector_name=str(world.connector),
        cluster="demo",
        region="us-east-1",
        target={},
        permissions={"actions": [], "denied": [], "problem": ""},
        version="1",
        status=AcceptanceRun.Status.SUCCESS,
        scenarios=[record["scenario"] for record in observations],
        observations=observations,
        verdicts={"held": 21, "broken": 0, "not observed": 0},
        started_at=timezone.now(),
        ended_at=timezone.now(),
    )
    return {"pk": run.pk}


def inquiry(world: World) -> dict[str, Any]:
    """Return the keys of a connector test through a delegate."""
    lookup = LookupRequest.objects.filter(connector=world.connector).first() or LookupRequest.objects.create(
        connector=world.connector,
        kind=LookupRequest.Kind.TEST,
        region="us-east-1",
        requested_by=User.objects.earliest("pk"),
        requested_at=timezone.now(),
    )
    return {"pk": world.connector.pk, "inquiry": lookup.pk}


def event_queue(world: World) -> dict[str, Any]:
    """Return the key of the event queue of the world's connector."""
    return {"pk": EventQueue.objects.get(connector=world.connector).pk}


def event_queue_form(world: World) -> dict[str, Any]:
    """Return the settings of another event queue."""
    return {
        "connector": world.connector.pk,
        "region": "us-east-1",
        "queue_url": "https://sqs.us-east-1.amazonaws.com/123456789012/slipway-events",
    }


def event_queue_setup(world: World) -> dict[str, Any]:
    """Return the key of the failed set-up of events of the world's connector."""
    return {"pk": EventQueueSetup.objects.get(connector=world.connector, status="FAILED").pk}


def running_event_queue_setup(world: World) -> dict[str, Any]:
    """Return the key of a set-up of events of the world's connector that runs."""
    now = timezone.now()
    setup, _ = EventQueueSetup.objects.get_or_create(
        connector=world.connector,
        region="eu-west-2",
        status=EventQueueSetup.Status.RUNNING,
        defaults={"stack_name": "slipway-events", "started_at": now, "due_at": now},
    )
    return {"pk": setup.pk}


def event_queue_setup_form(world: World) -> dict[str, Any]:
    """Return the settings of another set-up of events."""
    return {"region": "us-east-1", "stack_name": "slipway-events-aws", "confirmed": "on"}


def audit_entry(world: World) -> dict[str, Any]:
    """Return the audit entries of the world's execution."""
    return {"pk": AuditEntry.objects.filter(scope=world.scope).earliest("pk").pk}


def comparison(world: World) -> dict[str, Any]:
    """Return the comparison of the world's ECS service with its last deployment."""
    return {"pk": DriftComparison.objects.get(ecs_service__service=world.service).pk}


def build_drift_body(world: World) -> dict[str, Any]:
    """The field of it that differs, accepted or not."""
    row = Drift.objects.filter(comparison=comparison(world)["pk"]).earliest("pk")
    return {"drifts": [row.pk]}


def accepted_field(world: World) -> dict[str, Any]:
    """Return the same body with a reason."""
    return {**build_drift_body(world), "reason": "as agreed"}


def build_accept_form(world: World) -> dict[str, Any]:
    """Return the form that accepts the drifted field."""
    return {"drift": build_drift_body(world)["drifts"], "reason": "as agreed", "verdict": "accept"}


def adoption(world: World) -> dict[str, Any]:
    """An ECS service that is ready to be taken over."""
    return {"pk": Adoption.objects.get(infrastructure=world.infrastructure).pk}


def create_adopted_service(world: World) -> dict[str, Any]:
    """Create an adopted service with its service and pipeline rows."""
    row = Adoption.objects.get(infrastructure=world.infrastructure)
    names = {"scope": world.scope, "identifier": "made", "name": "Made"}
    row.service, _ = Service.objects.get_or_create(**names)
    row.pipeline, _ = Pipeline.objects.get_or_create(**names)
    row.state = Adoption.State.ADOPTED
    row.save()
    return {"pk": row.pk}


def invitation_form(world: World) -> dict[str, Any]:
    """To make somebody a viewer of the world's project."""
    role = Role.objects.get(identifier="viewer", scope=None).pk
    return {"in_scope": world.scope.path, "email": "new@example.com", "role": role, "days": 7}


def invitation_body(world: World) -> dict[str, Any]:
    """The same by API."""
    return {"email": "new@example.com", "role": "viewer", "scope": world.scope.path}
