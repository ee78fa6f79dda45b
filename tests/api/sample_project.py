"""Makes one of everything in a project, so that every route has something to be asked about."""

from dataclasses import dataclass
from datetime import timedelta

from django.utils import timezone

from catalog.models import Artifact, Environment, Infrastructure, Manifest, Service, ServiceOverride
from connectors.models import (
    Connector,
    EventQueue,
    EventQueueSetup,
    FileDeletion,
    FileNode,
    FileVersion,
    Secret,
)
from delegates.models import Delegate, DelegateToken
from deployments.execution import operations
from deployments.models import Approval, Execution, FreezeWindow
from gitsync.models import GitSync, GitSyncHook, GitSyncProposal, GitSyncResource, GitSyncRun
from notifications.models import Notification, NotificationRule
from pipelines.models import InputSet, Pipeline, PipelineVersion, Trigger, TriggerFiring
from policies.models import PolicyRule
from rbac.models import (
    ApiKey,
    Invitation,
    ResourceGroup,
    ResourceGroupEntry,
    Role,
    RoleAssignment,
    Scope,
    ServiceAccount,
    User,
    UserGroup,
)
from rbac.models.api_keys import hash_token
from rbac.operations.api_keys import create_api_key
from tests.api.synced_service import create_synced_rows
from tests.fixtures.delegates import create_all_rows, make_token
from tests.secret_watch.marker import planted

# The port of "discard": a call that gets this far is refused and never reaches AWS.
NOBODY_LISTENS = "http://127.0.0.1:9"
# Part of every name here: whoever sees it sees something of this project.
CANARY = "Canary4711"
TASK_DEFINITION = """\
family: Canary4711
containerDefinitions:
  - name: myapp
    image: <+primary.artifact.image>
"""
PIPELINE = """\
pipeline:
  identifier: rolling
  name: Canary4711 rolling
  stages:
    - stage:
        identifier: deploy
        name: Deploy
        type: Deployment
        spec:
          deploymentType: ECS
          service:
            serviceRef: myapp
          environment:
            environmentRef: dev
            infrastructureDefinitions:
              - identifier: sandbox
          strategy: Rolling
"""


@dataclass(frozen=True)
class World:
    """One object of every kind in one project."""

    scope: Scope
    member: User
    secret: Secret
    connector: Connector
    file: FileNode
    deletion: FileDeletion
    service: Service
    environment: Environment
    infrastructure: Infrastructure
    pipeline: Pipeline
    input_set: InputSet
    execution: Execution
    approval: Approval
    freeze: FreezeWindow
    role: Role
    assignment: RoleAssignment
    key: ApiKey
    resource_group: ResourceGroup
    user_group: UserGroup
    service_account: ServiceAccount
    invitation: Invitation
    delegate: Delegate
    token: DelegateToken
    notification_rule: NotificationRule
    notification: Notification
    trigger: Trigger
    firing: TriggerFiring
    policy_rule: PolicyRule
    git_sync: GitSync


def make_world(scope: Scope, member: User, runner: User) -> World:
    """Fill `scope`; `member` gets an own role there, and `runner` runs the pipeline."""
    secret = Secret.objects.create(
        scope=scope, identifier="key", name=f"{CANARY} key", value=planted("wonderful-secret-value")
    )
    connector = Connector.objects.create(
        scope=scope,
        identifier="aws",
        name=f"{CANARY} AWS",
        spec={
            "credentials": "AccessKey",
            "access_key_id": "AKIAIOSFODNN7EXAMPLE",
            "endpoint_url": NOBODY_LISTENS,
        },
        secret=secret,
    )
    EventQueue.objects.create(
        connector=connector,
        region="eu-central-1",
        queue_url=f"https://sqs.eu-central-1.amazonaws.com/123456789012/slipway-{connector.pk}",
    )
    EventQueueSetup.objects.create(
        connector=connector,
        region="eu-west-1",
        stack_name="slipway-events",
        status=EventQueueSetup.Status.FAILED,
        message=f"{CANARY} failure",
        started_by=member,
        started_at=timezone.now(),
        due_at=timezone.now(),
        ended_at=timezone.now(),
    )
    file = FileNode.objects.create(scope=scope, path="/task.yaml", content=TASK_DEFINITION)
    FileVersion.objects.create(node=file, version=1, content=TASK_DEFINITION, by=member)
    deletion = FileDeletion.objects.create(scope=scope, path=f"/{CANARY}.yaml", by=member)
    FileNode.objects.create(scope=scope, path=f"/{CANARY}.yaml", content="a: 1", deletion=deletion)
    service = Service.objects.create(scope=scope, identifier="myapp", name=f"{CANARY} app")
    Manifest.objects.create(
        service=service, identifier="task", kind=Manifest.Kind.TASK_DEFINITION, paths=["/task.yaml"]
    )
    Manifest.objects.create(
        service=service,
        identifier="service",
        kind=Manifest.Kind.SERVICE_DEFINITION,
        store="Inline",
        content="serviceName: myapp\n",
    )
    Artifact.objects.create(service=service, image="myapp", tag="v1")
    environment = Environment.objects.create(scope=scope, identifier="dev", name=f"{CANARY} dev")
    infrastructure = Infrastructure.objects.create(
        environment=environment,
        identifier="sandbox",
        name=f"{CANARY} sandbox",
        connector=connector,
        region="us-east-1",
        cluster="demo",
    )
    ServiceOverride.objects.create(environment=environment, service=service, variables={"who": CANARY})
    pipeline = Pipeline.objects.create(
        scope=scope, identifier="rolling", name=f"{CANARY} rolling", yaml=PIPELINE
    )
    PipelineVersion.objects.create(pipeline=pipeline, number=1, yaml=PIPELINE, saved_at=pipeline.updated_at)
    input_set = InputSet.objects.create(pipeline=pipeline, identifier="usual", name=CANARY, inputs={})
    execution = operations.run_pipeline(actor=runner, pipeline=pipeline)
    approval = Approval.objects.create(
        execution=execution,
        step=execution.stages.get().steps.order_by("position")[0],
        attempt=1,
        message=CANARY,
        requested_at=timezone.now(),
        expires_at=timezone.now() + timedelta(days=1),
        plan_hash="d" * 64,
        refreshes_completed=1,
    )
    create_synced_rows(service, infrastructure, execution, CANARY)
    freeze = FreezeWindow.objects.create(
        scope=scope,
        identifier="holidays",
        name=f"{CANARY} holidays",
        begins="2020-12-24T12:00",
        ends="2020-12-27T00:00",
    )
    role = Role.objects.create(scope=scope, identifier="own", name=f"{CANARY} own")
    assignment = RoleAssignment.objects.create(scope=scope, role=role, user=member)
    key, _ = create_api_key(actor=member, user=member, name=f"{CANARY} api key")
    resource_group = ResourceGroup.objects.create(scope=scope, identifier="web", name=f"{CANARY} web")
    ResourceGroupEntry.objects.create(group=resource_group, resource="service", identifier="myapp")
    program = User.objects.create(username=f"{CANARY}.program.{scope.pk}", kind=User.Kind.SERVICE_ACCOUNT)
    user_group = UserGroup.objects.create(scope=scope, identifier="crew", name=f"{CANARY} crew")
    user_group.users.add(member)
    service_account = ServiceAccount.objects.create(
        scope=scope, identifier="program", name=f"{CANARY} program", user=program
    )
    invitation = Invitation.objects.create(
        scope=scope,
        role=role,
        email=f"{CANARY}@example.com",
        invited_by=member,
        hash=hash_token(f"invitation-{scope.pk}"),
        expires_at=timezone.now() + timedelta(days=7),
    )
    delegate = create_all_rows(scope, connector, CANARY)
    token = make_token(scope, f"{CANARY} spare")
    rule, notification = create_notification_rows(scope)
    trigger, firing = create_trigger_rows(pipeline, service_account)
    return World(
        scope=scope,
        member=member,
        secret=secret,
        connector=connector,
        file=file,
        deletion=deletion,
        service=service,
        environment=environment,
        infrastructure=infrastructure,
        pipeline=pipeline,
        input_set=input_set,
        execution=execution,
        approval=approval,
        freeze=freeze,
        role=role,
        assignment=assignment,
        key=key,
        resource_group=resource_group,
        user_group=user_group,
        service_account=service_account,
        invitation=invitation,
        delegate=delegate,
        token=token,
        notification_rule=rule,
        notification=notification,
        trigger=trigger,
        firing=firing,
        policy_rule=create_policy_rule(scope),
        git_sync=create_git_sync_rows(service_account),
    )


def create_policy_rule(scope: Scope) -> PolicyRule:
    """A rule that every run meets."""
    return PolicyRule.objects.create(
        scope=scope,
        identifier="tags",
        name=f"{CANARY} tags",
        subject=PolicyRule.Subject.RUN,
        condition="artifact.tag != 'latest'",
        message="Choose a version.",
        effect=PolicyRule.Effect.REFUSE,
    )


def create_git_sync_rows(account: ServiceAccount) -> GitSync:
    """A disabled sync whose connector was deleted, with one resource, and a run and an edit that failed."""
    sync = GitSync.objects.create(
        scope=account.scope,
        identifier="folder",
        name=f"{CANARY} folder",
        branch="main",
        folder=CANARY,
        service_account=account,
        is_enabled=False,
        state=GitSync.State.FAILED,
    )
    GitSyncResource.objects.create(
        sync=sync,
        path=f"{CANARY}.yaml",
        line=1,
        kind="Service",
        place=account.scope.path.removeprefix("account/"),
        resource="from_git",
        state=GitSyncResource.State.OUT_OF_SYNC,
        commit="1" * 40,
        difference=f"-name: {CANARY}",
    )
    GitSyncHook.objects.create(sync=sync, secret=planted("secret-of-a-git-sync"))
    now = timezone.now()
    GitSyncProposal.objects.create(
        sync=sync,
        kind="Service",
        place=account.scope.path.removeprefix("account/"),
        resource="from_git",
        path=f"{CANARY}.yaml",
        branch=CANARY,
        difference=f"-name: {CANARY}",
        created_at=now,
        state=GitSyncProposal.State.FAILED,
        reason=CANARY,
        ended_at=now,
    )
    fault = {"file": f"{CANARY}.yaml", "line": 1, "column": 1, "message": CANARY}
    GitSyncRun.objects.create(
        sync=sync,
        commit="2" * 40,
        result=GitSyncRun.Result.FAILED,
        faults=[fault],
        started_at=now,
        ended_at=now,
    )
    return sync


def create_notification_rows(scope: Scope) -> tuple[NotificationRule, Notification]:
    """A rule that is turned off, with one event that was not taken."""
    now = timezone.now()
    rule = NotificationRule.objects.create(
        scope=scope,
        identifier="room",
        name=f"{CANARY} room",
        events=["drift.found"],
        url=f"{NOBODY_LISTENS}/{planted('token')}",
        host=NOBODY_LISTENS,
        secret=planted("signing-secret-value"),
        is_signed=True,
        is_enabled=False,
        failures=1,
    )
    notification = Notification.objects.create(
        rule=rule,
        event="drift.found",
        text=CANARY,
        body="{}",
        status=Notification.Status.FAILED,
        attempts=1,
        created_at=now,
        due_at=now,
        deadline_at=now,
        ended_at=now,
        response_status=500,
        reason="It answered 500",
    )
    return rule, notification


def create_trigger_rows(pipeline: Pipeline, account: ServiceAccount) -> tuple[Trigger, TriggerFiring]:
    """A webhook of an account that may run the pipeline, with one event that started nothing."""
    role = Role.objects.get(identifier="pipeline_executor", scope=None)
    RoleAssignment.objects.create(scope=pipeline.scope, role=role, user=account.user)
    trigger = Trigger.objects.create(
        pipeline=pipeline,
        identifier="build",
        name=f"{CANARY} build",
        kind="webhook",
        secret=planted("secret-of-a-trigger"),
        tag="<+trigger.payload.tag>",
        service_account=account,
    )
    now = timezone.now()
    firing = TriggerFiring.objects.create(
        trigger=trigger,
        delivery_id="build-1",
        event_key="signature:1",
        received_at=now,
        summary=f"{CANARY} webhook",
        payload={"tag": CANARY},
        status=TriggerFiring.Status.IGNORED,
        reason="The trigger is disabled.",
        ended_at=now,
    )
    return trigger, firing
