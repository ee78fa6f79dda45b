"""History of a busy year: projects, people, pipelines and executions."""

import random
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.db import connection, transaction
from django.db.models import F, Max
from django.utils import timezone

from benchmarks.copies import copy_row
from catalog.models import Artifact
from connectors.models import FileNode
from deployments import log
from deployments.models import ActionRun, AwsCall, Execution, LogChunk, StageExecution, StepExecution
from pipelines.models import Pipeline
from rbac.models import AuditEntry, Role, RoleAssignment, Scope, User, UserGroup
from steps.states import CallState, Outcome, Status
from tests.api.sample_project import World, make_world
from tests.fixtures.people import make_person, make_project

ORGANIZATIONS, PROJECTS, PIPELINES, PEOPLE, FILES = 4, 5, 10, 50, 500
BATCH = 1000
# One execution in so many has its steps, actions, calls and log; all have their stage.
DETAILED = 20
QUIET_RUNS = 20
# What ended how, in thousandths; the rest succeeded.
ENDINGS = ((60, Status.FAILED), (80, Status.ABORTED), (90, Status.EXPIRED), (91, Status.APPROVAL_REJECTED))
TEXT = "2026-01-01T00:00:00.000Z [nginx] 203.0.113.7 GET /index.html 200 612 " + "x" * 70


@dataclass(frozen=True)
class Site:
    """A filled database and its users."""

    world: World
    admin: User
    member: User
    quiet: User
    quiet_project: Scope
    pipelines: tuple[Pipeline, ...]


def create_site() -> Site:
    """Create scopes, people and the pipelines of each project; no executions."""
    admin = make_person("admin", "account_admin", Scope.objects.account())
    projects = [
        make_project(f"o{org}", f"p{number}") for org in range(ORGANIZATIONS) for number in range(PROJECTS)
    ]
    world = make_world(make_project("default", "demo"), admin, admin)
    quiet_project = make_project("default", "quiet")
    User.objects.bulk_create(User(username=f"person{number}") for number in range(PEOPLE))
    member, viewer = User.objects.create_user("member"), Role.objects.get(identifier="viewer", scope=None)
    for scope in (world.scope, projects[0], projects[-1]):
        RoleAssignment.objects.create(user=member, role=viewer, scope=scope)
    UserGroup.objects.create(scope=world.scope, identifier="team", name="Team").users.add(member)
    FileNode.objects.bulk_create(
        FileNode(scope=world.scope, path=f"/folder{number % 20}/task{number}.yaml", content=TEXT)
        for number in range(FILES)
    )
    pipelines = [_create_pipeline(world, scope, number) for scope in projects for number in range(PIPELINES)]
    return Site(
        world=replace(world, execution=_create_ended_execution(world)),
        admin=admin,
        member=member,
        quiet=make_person("quiet", "viewer", quiet_project),
        quiet_project=quiet_project,
        pipelines=(world.pipeline, *pipelines, _create_pipeline(world, quiet_project, 0)),
    )


def _create_pipeline(world: World, scope: Scope, number: int) -> Pipeline:
    """Create a pipeline in `scope`, with its service and environment."""
    service = copy_row(world.service, scope=scope, identifier=f"service{number}", name=f"Service {number}")
    service.save()
    Artifact.objects.create(service=service, image="registry/app", tag="v1")
    environment = copy_row(world.environment, scope=scope, identifier=f"env{number}", name=f"Env {number}")
    environment.save()
    copy_row(world.infrastructure, environment=environment).save()
    pipeline = copy_row(
        world.pipeline, scope=scope, identifier=f"pipeline{number}", name=f"Pipeline {number}"
    )
    pipeline.save()
    return pipeline


def _create_ended_execution(world: World) -> Execution:
    """Return the ended execution of the world, with AWS calls and a long log."""
    execution = world.execution
    step = StepExecution.objects.filter(stage__execution=execution).earliest("position")
    actions = list(ActionRun.objects.filter(step=step))
    AwsCall.objects.bulk_create(
        _build_call(execution, action, number) for action in actions for number in range(30)
    )
    line = log.NewLogLine(
        at=timezone.now(), step_id=step.pk, step="deploy", unit="Deploy", level="info", text=TEXT
    )
    for _ in range(50):
        with transaction.atomic():
            log.store_lines(execution.pk, [line] * 100)
    values = {"status": Status.SUCCESS, "outcome": Outcome.COMPLETED, "ended_at": timezone.now()}
    Execution.objects.filter(pk=execution.pk).update(due_at=None, started_at=F("created_at"), **values)
    execution.refresh_from_db()
    return execution


def write(site: Site, count: int) -> None:
    """Add executions up to `count`, oldest first, each with an audit entry."""
    dice, missing = random.Random(4711), count - Execution.objects.count()
    numbers = dict(
        Execution.objects.values("pipeline").annotate(n=Max("number")).values_list("pipeline", "n")
    )
    people, plan = list(User.objects.all()), _Plan.of(site.world.execution)
    began = timezone.now() - timedelta(days=365)
    for start in range(0, missing, BATCH):
        rows = []
        for number in range(start, min(start + BATCH, missing)):
            pipeline = _choose_pipeline(site, numbers, dice)
            numbers[pipeline.pk] = numbers.get(pipeline.pk, 0) + 1
            at = began + timedelta(days=364) * (number / missing)
            run = _build_execution(
                plan.execution, pipeline, at, _choose_status(dice, remaining=missing - number)
            )
            run.number, run.started_by = numbers[pipeline.pk], dice.choice(people)
            rows.append(run)
        _store(plan, rows)
    for pk, last in numbers.items():
        Pipeline.objects.filter(pk=pk).update(next_number=last + 1)
    analyze()


def _choose_pipeline(site: Site, numbers: dict[int, int], dice: random.Random) -> Pipeline:
    """Choose a pipeline: a few run often, most sometimes, one hardly ever."""
    if numbers.get(site.pipelines[-1].pk, 0) < QUIET_RUNS:
        return site.pipelines[-1]
    return site.pipelines[min(int(dice.paretovariate(0.5)) - 1, len(site.pipelines) - 2)]


def _choose_status(dice: random.Random, *, remaining: int) -> Status:
    if remaining <= 30:
        return Status.RUNNING
    number = dice.randrange(1000)
    return next((status for below, status in ENDINGS if number < below), Status.SUCCESS)


def _build_execution(template: Execution, pipeline: Pipeline, at: datetime, status: Status) -> Execution:
    failed = status in (Status.FAILED, Status.EXPIRED)
    return copy_row(
        template,
        pk=uuid.uuid4(),
        pipeline=pipeline,
        scope_id=pipeline.scope_id,
        status=status,
        outcome={Status.SUCCESS: Outcome.COMPLETED, Status.FAILED: Outcome.FAILED}.get(status, ""),
        failure={"code": "TASK_FAILED", "message": TEXT, "step": "deploy"} if failed else None,
        started_at=at,
        ended_at=None if status == Status.RUNNING else at + timedelta(seconds=90),
        due_at=at + timedelta(days=9999) if status == Status.RUNNING else None,
    )


@dataclass(frozen=True)
class _Plan:
    """The rows of one execution, to copy for others."""

    execution: Execution
    stages: tuple[StageExecution, ...]
    steps: tuple[StepExecution, ...]
    actions: tuple[ActionRun, ...]
    chunks: tuple[LogChunk, ...]

    @classmethod
    def of(cls, execution: Execution) -> "_Plan":
        steps = StepExecution.objects.filter(stage__execution=execution)
        return cls(
            execution=execution,
            stages=tuple(StageExecution.objects.filter(execution=execution)),
            steps=tuple(steps),
            actions=tuple(ActionRun.objects.filter(step__in=steps)),
            chunks=tuple(LogChunk.objects.filter(execution=execution).order_by("first")[:3]),
        )


def _store(plan: _Plan, rows: list[Execution]) -> None:
    with transaction.atomic():
        Execution.objects.bulk_create(rows)
        # Each row gets the time of its making when it is stored; a history lies in the past.
        Execution.objects.filter(pk__in=[row.pk for row in rows]).update(created_at=F("started_at"))
        stages = [copy_row(stage, execution=row, status=row.status) for row in rows for stage in plan.stages]
        StageExecution.objects.bulk_create(stages)
        AuditEntry.objects.bulk_create(_build_audit_entries(rows))
        detailed_ids = {row.pk for row in rows[::DETAILED]}
        _store_details(plan, [stage for stage in stages if stage.execution_id in detailed_ids])


def _store_details(plan: _Plan, stages: list[StageExecution]) -> None:
    steps = [(step.pk, copy_row(step, stage=stage)) for stage in stages for step in plan.steps]
    StepExecution.objects.bulk_create(step for _, step in steps)
    actions = [
        copy_row(action, step=step) for of, step in steps for action in plan.actions if action.step_id == of
    ]
    ActionRun.objects.bulk_create(actions)
    AwsCall.objects.bulk_create(
        _build_call(action.step.stage.execution, action, number) for action in actions for number in range(3)
    )
    LogChunk.objects.bulk_create(
        copy_row(chunk, execution=stage.execution) for stage in stages for chunk in plan.chunks
    )


def _build_call(execution: Execution, action: ActionRun, number: int) -> AwsCall:
    return AwsCall(
        execution=execution,
        step=action.step,
        action=action,
        attempt=1,
        phase="is_done",
        number=number,
        service="ecs",
        operation="DescribeServices",
        is_write=False,
        params_hash="",
        parameters="{}",
        preview={"cluster": "demo", "services": ["myapp"]},
        state=CallState.ANSWERED,
        planned_at=timezone.now(),
        duration_ms=42,
    )


def _build_audit_entries(rows: Iterable[Execution]) -> Iterator[AuditEntry]:
    for row in rows:
        yield AuditEntry(
            actor=row.started_by,
            actor_name=str(row.started_by),
            action="pipeline.execute",
            thing_type="deployments.Execution",
            thing_id=str(row.pk),
            thing_name=f"#{row.number}",
            scope_id=row.scope_id,
            source="page",
        )


def analyze() -> None:
    """Update the statistics of the database, as autovacuum does."""
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE" if connection.vendor == "postgresql" else "ANALYZE")
