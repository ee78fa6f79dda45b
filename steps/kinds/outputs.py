"""What a step of each kind finds out while it runs, before any of it is known: names, and what they are."""

from collections.abc import Mapping
from typing import Any

from guards.limits import LISTENER_PAIRS
from steps.expressions import has_expression
from steps.kinds.approval import APPROVAL
from steps.kinds.base import known_steps

_SERVICE = {
    "serviceName": "The name of the ECS service.",
    "serviceArn": "The ARN of the ECS service.",
    "deploymentId": "The id of the deployment that AWS made.",
    "desiredCount": "How many tasks are wanted.",
}
_REVISION = {
    "taskDefinitionArn": "The ARN of the task definition's revision.",
    "taskDefinitionFamily": "The family of the task definition.",
    "version": "The number of the revision.",
}
_SCALING = {"autoScaling": "What became of the auto scaling of the ECS service."}
_ANSWER = {
    "httpUrl": "The address that was asked.",
    "httpMethod": "The method of the request.",
    "httpResponseCode": "The status of the answer, a number.",
    "httpResponseBody": "The text of the answer.",
}
_PLAN = {
    "add": "How many resources the plan adds.",
    "change": "How many it changes.",
    "destroy": "How many it destroys.",
    "import": "How many it imports.",
    "hasChanges": "Whether it does anything.",
    "humanReadablePlan": "The plan as people read it.",
}
_DESTROYED = {"destroyed": "How many resources were destroyed."}
_OUTPUTS: Mapping[str, Mapping[str, str]] = {
    "EcsRollingDeploy": {
        **_REVISION,
        **_SERVICE,
        **_SCALING,
        "takenOverServiceName": "The blue/green ECS service that served before, where there was one.",
        "autoScalingOfTakenOverServiceName": "What became of the auto scaling of that ECS service.",
    },
    "EcsCanaryDeploy": {**_REVISION, **_SERVICE},
    "EcsCanaryDelete": {"serviceName": "The name of the canary."},
    "EcsBlueGreenCreateService": {
        **_REVISION,
        **_SERVICE,
        "targetGroupArn": "The ARN of the target group that receives the stage traffic.",
        **{
            f"targetGroupArn{number}": f"The same for pair {number} of listeners, where the step has as many."
            for number in range(2, LISTENER_PAIRS + 1)
        },
        "oldServiceName": "The ECS service that was live when the deployment began, where there was one.",
    },
    "EcsBlueGreenSwapTargetGroups": {
        "serviceName": "The name of the ECS service that receives production traffic now.",
        "serviceArn": "The ARN of that ECS service.",
        "oldServiceName": "The ECS service that was live before, where there was one.",
        "swapped": "Whether the listeners were swapped.",
        "autoScalingOfOldServiceName": "What became of the auto scaling of the old ECS service.",
    },
    "EcsRunTask": {
        **_REVISION,
        "taskArns": "The ARNs of the tasks that were started, a list.",
        "exitCodes": "By task: the exit codes of its containers.",
    },
    "EcsScale": {
        "serviceName": "The name of the ECS service.",
        "serviceArn": "The ARN of the ECS service.",
        "countBefore": "How many tasks were wanted before.",
        "desiredCount": "How many tasks are wanted.",
        **_SCALING,
    },
    "CreateStack": {
        "stackName": "The name of the stack.",
        "stackId": "The ARN of the stack.",
        "stackRegion": "The region that the stack is in.",
        "stackChange": "CREATE, UPDATE or NONE.",
        "stackStatus": "How the stack stands.",
        "stackRestored": "Whether a rollback found the stack as it was before.",
    },
    "DeleteStack": {"stackName": "The stack that was deleted.", "stackId": "The ARN that it had."},
    "EcsCleanUp": {"serviceName": "The ECS service that was deleted."},
    "Verify": {
        "watchedSince": "When the watch began.",
        "waitsUntil": "When the watch ends.",
    },
    "Wait": {"waitsUntil": "When the wait ends."},
    APPROVAL: {
        "approvers": "Who approved, a list.",
        "approverInputs": "What approvers entered, by name.",
    },
    "Http": _ANSWER,
    "TerraformCloudRun": {
        "runId": "The id of the run.",
        "workspaceId": "The id of the workspace.",
        "provisionerIdentifier": "The name that the step gives its plan.",
        "planStatus": "CHANGES or NO_CHANGES.",
        "resourcesToAdd": "How many resources the plan adds.",
        "resourcesToChange": "How many resources the plan changes.",
        "resourcesToDestroy": "How many resources the plan destroys.",
        "applyStatus": "APPLIED or NOTHING_TO_APPLY.",
        "endedRunId": "The run that was left open and had to be ended.",
    },
    "TerraformPlan": _PLAN,
    "TerragruntPlan": _PLAN,
    "TerraformDestroy": _DESTROYED,
    "TerragruntDestroy": _DESTROYED,
}
# What a step learns only while it is undone, or once it failed.
_ONCE_FAILED, _ONCE_UNDONE = (
    {"EcsRunTask": frozenset({"leftTasks"})},
    frozenset({"rollbackDeploymentId", "rollbackRunId", "restoredTaskDefinitionArn"}),
)
# The field of steps that say themselves which outputs they have.
_OWN = "outputVariables"
# What only the fields of the step itself may name, as it learns it.
_WITHIN: Mapping[str, Mapping[str, str]] = {
    "Http": {
        "httpResponseCode": _ANSWER["httpResponseCode"],
        "httpResponseBody": _ANSWER["httpResponseBody"],
        "json": "The answer, if it is a JSON object: write <+json.path.to.value>.",
    },
}


def outputs_of(type_: str, spec: Any) -> dict[str, str]:
    """The outputs of a step by name, each with a sentence; those that its spec names come last."""
    found = dict(_OUTPUTS.get(type_, {}))
    listed = spec.get(_OWN) if isinstance(spec, Mapping) else None
    found |= dict.fromkeys(_own_names(listed), "An output variable of the step.")
    if type_ == APPROVAL:
        found |= {f"approverInputs.{name}": "What an approver entered." for name in _asked(spec)}
    return found


def all_outputs(type_: str, spec: Any) -> frozenset[str] | None:
    """Every output that a step can have; None where that is only known once it ran."""
    kind = known_steps().get(type_)
    names_its_own = kind is not None and _OWN in kind.spec.__dataclass_fields__
    if kind is None or kind.provisions or not (type_ in _OUTPUTS or names_its_own):
        return None
    listed = spec.get(_OWN) if isinstance(spec, Mapping) else None
    if isinstance(listed, str) or any(has_expression(name) for name in _own_names(listed)):
        return None
    later = _ONCE_FAILED.get(type_, frozenset()) | (_ONCE_UNDONE if kind.undone_by else frozenset())
    return frozenset(outputs_of(type_, spec)) | later


def known_within(type_: str) -> Mapping[str, str]:
    """What the fields of a step itself may name while it runs, each with a sentence."""
    return _WITHIN.get(type_, {})


def _own_names(listed: Any) -> list[str]:
    entries = listed if isinstance(listed, list) else ()
    found = (one.get("name") for one in entries if isinstance(one, Mapping))
    return [name for name in found if isinstance(name, str)]


def _asked(spec: Any) -> list[str]:
    asked = spec.get("approverInputs") if isinstance(spec, Mapping) else None
    listed = asked if isinstance(asked, list) else ()
    return [str(one["name"]) for one in listed if isinstance(one, Mapping) and one.get("name")]
