"""Serializers that describe the responses of the dashboard routes."""

from typing import Any

from rest_framework import serializers

from inventory.dashboards.deployment_differences import GROUP_TITLES
from inventory.models.drift import DriftComparison
from inventory.models.instances import EcsServiceEvent


class TileExecutionDocument(serializers.Serializer[Any]):
    """Execution in a tile of the overview."""

    id = serializers.UUIDField()
    pipeline = serializers.CharField()
    number = serializers.IntegerField()
    status = serializers.CharField()
    outcome = serializers.CharField(allow_null=True)
    created_at = serializers.DateTimeField()
    failure = serializers.CharField(allow_null=True)


class TileDocument(serializers.Serializer[Any]):
    """Number of executions, with the newest five."""

    count = serializers.IntegerField()
    newest = TileExecutionDocument(many=True)


class DisconnectedDelegateDocument(serializers.Serializer[Any]):
    """Late or disconnected delegate."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    status = serializers.CharField()
    reason = serializers.CharField()


class DelegatesTileDocument(serializers.Serializer[Any]):
    """Delegates that serve the scope."""

    total = serializers.IntegerField()
    connected = serializers.IntegerField()
    away = DisconnectedDelegateDocument(many=True)


class DeploymentNumbersDocument(serializers.Serializer[Any]):
    """Numbers of deployments by result, with durations; null without data."""

    succeeded = serializers.IntegerField()
    failed = serializers.IntegerField()
    rolled_back = serializers.IntegerField()
    aborted = serializers.IntegerField()
    failure_rate = serializers.FloatField(
        allow_null=True, help_text="Share from 0 to 1, without aborted deployments."
    )
    deployment_duration_seconds = serializers.FloatField(
        allow_null=True, help_text="Median time in seconds from start to success."
    )
    restore_time_seconds = serializers.FloatField(
        allow_null=True,
        help_text=(
            "Median time in seconds from the start of a failed deployment to its rollback or the next "
            "success."
        ),
    )


class DailyDeploymentsDocument(DeploymentNumbersDocument):
    """Deployment numbers of one day in UTC."""

    day = serializers.DateField()


class OverviewDocument(serializers.Serializer[Any]):
    """Current activity in a scope, and deployment statistics."""

    deploying = TileDocument()
    waiting = TileDocument()
    failed_or_rolled_back = TileDocument()
    drifted = serializers.IntegerField(help_text="Number of ECS services changed outside Slipway.")
    delegates = DelegatesTileDocument()
    all = DeploymentNumbersDocument()
    days = DailyDeploymentsDocument(many=True)


class RunningVersionDocument(serializers.Serializer[Any]):
    """Tasks of one image and one revision."""

    version = serializers.CharField()
    image = serializers.CharField()
    digest = serializers.CharField()
    task_definition = serializers.CharField()
    tasks = serializers.IntegerField()


class RunningServiceDocument(serializers.Serializer[Any]):
    """ECS service with its running versions, largest number of tasks first."""

    ecs_service = serializers.CharField()
    environment = serializers.CharField(allow_null=True)
    infrastructure = serializers.CharField(allow_null=True)
    account = serializers.CharField(allow_null=True)
    region = serializers.CharField()
    cluster = serializers.CharField()
    desired = serializers.IntegerField()
    running = serializers.IntegerField()
    pending = serializers.IntegerField()
    task_definition = serializers.CharField()
    version = serializers.CharField(allow_null=True)
    versions = RunningVersionDocument(many=True)
    scaling = serializers.JSONField(
        allow_null=True,
        help_text="Minimum, maximum and suspended activities; {} without auto scaling, null if unknown.",
    )
    seen_at = serializers.DateTimeField()


class DeploymentDocument(serializers.Serializer[Any]):
    """Deployment of a service; `can_return` tells whether a rollback to it is possible."""

    id = serializers.IntegerField()
    execution = serializers.UUIDField()
    number = serializers.IntegerField()
    attempt = serializers.IntegerField()
    pipeline = serializers.CharField()
    environment = serializers.CharField(allow_null=True)
    infrastructure = serializers.CharField(allow_null=True)
    ecs_service = serializers.CharField(allow_null=True)
    image = serializers.CharField(allow_null=True)
    tag = serializers.CharField(allow_null=True)
    digest = serializers.CharField(allow_null=True)
    status = serializers.CharField()
    outcome = serializers.CharField(allow_null=True)
    replays = serializers.IntegerField(allow_null=True, help_text="Number of the repeated execution.")
    started_by = serializers.CharField(allow_null=True)
    created_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    can_return = serializers.BooleanField()


class UnhealthyTargetDocument(serializers.Serializer[Any]):
    """Unhealthy target with AWS's reason code and description."""

    target = serializers.CharField()
    port = serializers.IntegerField(allow_null=True)
    zone = serializers.CharField()
    state = serializers.CharField()
    reason = serializers.CharField()
    description = serializers.CharField()
    task = serializers.CharField(allow_null=True, help_text="Id of the target's ECS task.")
    hint = serializers.CharField(help_text="Recommended action.")


class TargetGroupDocument(serializers.Serializer[Any]):
    """Target health of a target group, read once a minute while the dashboard is open."""

    arn = serializers.CharField()
    name = serializers.CharField()
    is_missing = serializers.BooleanField(help_text="True if the target group does not exist in AWS.")
    counts = serializers.DictField(child=serializers.IntegerField(), help_text="Number of targets by state.")
    total = serializers.IntegerField()
    unhealthy = UnhealthyTargetDocument(many=True, help_text="First unhealthy targets.")
    unhealthy_total = serializers.IntegerField()
    others = UnhealthyTargetDocument(
        many=True, help_text="First targets that are initial, draining or unused."
    )
    read_at = serializers.DateTimeField(allow_null=True, help_text="Null until the first read.")


class UsagePointDocument(serializers.Serializer[Any]):
    """Averages of five minutes, in percent of the reserved capacity."""

    at = serializers.DateTimeField(help_text="Start of the five minutes.")
    cpu = serializers.FloatField(allow_null=True)
    memory = serializers.FloatField(allow_null=True)


class UsageDocument(serializers.Serializer[Any]):
    """CPU and memory of the last three hours, oldest first."""

    read_at = serializers.DateTimeField()
    points = UsagePointDocument(many=True)


class ServiceDriftDocument(serializers.Serializer[Any]):
    """Drift of an ECS service from its last deployment."""

    comparison = serializers.IntegerField()
    state = serializers.ChoiceField(choices=DriftComparison.State.choices)


class DashboardServiceDocument(RunningServiceDocument):
    """ECS service with the details that are read while its dashboard is open."""

    target_groups = TargetGroupDocument(many=True)
    usage = UsageDocument(allow_null=True, help_text="Null until the first read.")
    drift = ServiceDriftDocument(allow_null=True, help_text="Null until the first comparison.")
    kept_back = serializers.DictField(
        child=serializers.CharField(),
        help_text="Missing IAM action by AWS operation; empty for a read that failed otherwise.",
    )


class DashboardDocument(serializers.Serializer[Any]):
    """Running and active deployments of a service."""

    places = DashboardServiceDocument(many=True)
    active = DeploymentDocument(many=True)


class ServiceReferenceDocument(serializers.Serializer[Any]):
    """Service by scope, identifier and name."""

    id = serializers.IntegerField()
    identifier = serializers.CharField()
    name = serializers.CharField()


class MatrixRowDocument(serializers.Serializer[Any]):
    """Service with its running versions by environment; `differs` is true if versions differ."""

    service = ServiceReferenceDocument()
    scope = serializers.CharField()
    differs = serializers.BooleanField()
    places = RunningServiceDocument(many=True)


class DifferingFieldDocument(serializers.Serializer[Any]):
    """Field that differs between two versions; a value is null where the field is absent."""

    document = serializers.CharField(help_text="Kind of the manifest that has the field.")
    path = serializers.CharField()
    old = serializers.CharField(allow_null=True)
    new = serializers.CharField(allow_null=True)
    hidden = serializers.BooleanField(help_text="True if the value may be a secret and is not shown.")


class DifferenceGroupDocument(serializers.Serializer[Any]):
    """Fields that differ, by purpose."""

    group = serializers.ChoiceField(choices=list(GROUP_TITLES))
    changes = DifferingFieldDocument(many=True)


# A key that is a word of Python.
_FROM_FIELD = {"from": DeploymentDocument()}
DifferenceDocument = type(
    "DifferenceDocument",
    (serializers.Serializer,),
    {
        "__doc__": ("Two deployments compared; values of environment variables are hidden."),
        **_FROM_FIELD,
        "to": DeploymentDocument(),
        "groups": DifferenceGroupDocument(many=True),
        "diff": serializers.CharField(
            allow_null=True, help_text="Unified diff; null if the task definition of one is unknown."
        ),
        "added": serializers.IntegerField(),
        "removed": serializers.IntegerField(),
    },
)


class RunningRevisionDocument(serializers.Serializer[Any]):
    """Task definition that runs, as far as it is known."""

    task_definition = serializers.CharField(allow_null=True)
    deployment = DeploymentDocument(allow_null=True, help_text="Deployment that it came from.")
    read_at = serializers.DateTimeField(allow_null=True, help_text="Time of the last sync.")
    unknown = serializers.CharField(help_text="What is not known, and why; empty if all is known.")


class ObstacleDocument(serializers.Serializer[Any]):
    """Reason why a deployment cannot be restored, and the remedy."""

    reason = serializers.CharField()
    remedy = serializers.CharField()


class RollbackPlanDocument(serializers.Serializer[Any]):
    """Rollback to a deployment: what runs, what would run, and what prevents it."""

    target = DeploymentDocument()
    running = RunningRevisionDocument()
    compared_with = DeploymentDocument(
        allow_null=True,
        help_text="Deployment that `groups` compares with; null for a revision without a deployment.",
    )
    groups = DifferenceGroupDocument(many=True, allow_null=True, help_text="Null if nothing can be compared.")
    diff = serializers.CharField(allow_null=True, help_text="Unified diff of the task definitions.")
    not_compared = serializers.CharField(help_text="Reason why nothing is compared; empty otherwise.")
    is_complete = serializers.BooleanField(
        help_text="False if only the task definitions are compared, without service and scaling."
    )
    possible = serializers.BooleanField()
    obstacles = ObstacleDocument(many=True)
    notes = serializers.ListField(child=serializers.CharField())


class RollbackInput(serializers.Serializer[Any]):
    """Confirmation of a rollback."""

    running = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=512,
        help_text="Task definition of `running` in the plan, empty if null. If another one runs by now, "
        "the rollback is refused. Without it, nothing is checked.",
    )


class StartedExecutionDocument(serializers.Serializer[Any]):
    """Started execution."""

    id = serializers.UUIDField()
    number = serializers.IntegerField()


class EventDocument(serializers.Serializer[Any]):
    """Event of ECS or auto scaling with time and subject."""

    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    kind = serializers.ChoiceField(choices=EcsServiceEvent.Kind.choices)
    message = serializers.CharField()
    count = serializers.IntegerField(allow_null=True, help_text="Desired count that auto scaling set.")
    count_before = serializers.IntegerField(allow_null=True, help_text="Previous desired count.")
    ecs_service = serializers.CharField()
    service = serializers.CharField(allow_null=True)
    environment = serializers.CharField(allow_null=True)
    account = serializers.CharField(allow_null=True)
    region = serializers.CharField()
    cluster = serializers.CharField()
