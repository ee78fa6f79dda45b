"""Outputs of step kinds by name, among them those of provisioners as `<+provisioner.NAME>`."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from guards.limits import LISTENER_PAIRS
from steps.expressions import has_expression
from steps.kinds.approval import APPROVAL_TYPE
from steps.kinds.registry import get_step_kinds

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
_HTTP_RESPONSE = {
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
_DESTROY = {"destroyed": "How many resources were destroyed."}
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
    APPROVAL_TYPE: {
        "approvers": "Who approved, a list.",
        "approverInputs": "What approvers entered, by name.",
    },
    "Http": _HTTP_RESPONSE,
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
    "TerraformDestroy": _DESTROY,
    "TerragruntDestroy": _DESTROY,
}
# What a step learns only while it is undone, or once it failed.
_FAILURE_OUTPUTS, _ROLLBACK_OUTPUTS = (
    {"EcsRunTask": frozenset({"leftTasks"})},
    frozenset({"rollbackDeploymentId", "rollbackRunId", "restoredTaskDefinitionArn"}),
)
# The field of steps that say themselves which outputs they have.
_OUTPUT_VARIABLES = "outputVariables"
# What only the fields of the step itself may name, as it learns it.
_OWN_EXPRESSIONS: Mapping[str, Mapping[str, str]] = {
    "Http": {
        "httpResponseCode": _HTTP_RESPONSE["httpResponseCode"],
        "httpResponseBody": _HTTP_RESPONSE["httpResponseBody"],
        "json": "The answer, if it is a JSON object: write <+json.path.to.value>.",
    },
}


def list_outputs(type_: str, spec: Any) -> dict[str, str]:
    """The outputs of a step by name, each with a sentence; those that its spec names come last."""
    found = dict(_OUTPUTS.get(type_, {}))
    listed = spec.get(_OUTPUT_VARIABLES) if isinstance(spec, Mapping) else None
    found |= dict.fromkeys(_list_output_variables(listed), "An output variable of the step.")
    if type_ == APPROVAL_TYPE:
        found |= {
            f"approverInputs.{name}": "What an approver entered." for name in _list_approver_inputs(spec)
        }
    return found


def list_all_outputs(type_: str, spec: Any) -> frozenset[str] | None:
    """Every output that a step can have; None where that is only known once it ran."""
    kind = get_step_kinds().get(type_)
    names_its_own = kind is not None and _OUTPUT_VARIABLES in kind.spec.__dataclass_fields__
    if kind is None or kind.provisions or not (type_ in _OUTPUTS or names_its_own):
        return None
    listed = spec.get(_OUTPUT_VARIABLES) if isinstance(spec, Mapping) else None
    if isinstance(listed, str) or any(has_expression(name) for name in _list_output_variables(listed)):
        return None
    later = _FAILURE_OUTPUTS.get(type_, frozenset()) | (_ROLLBACK_OUTPUTS if kind.undone_by else frozenset())
    return frozenset(list_outputs(type_, spec)) | later


def list_own_expressions(type_: str) -> Mapping[str, str]:
    """What the fields of a step itself may name while it runs, each with a sentence."""
    return _OWN_EXPRESSIONS.get(type_, {})


def _list_output_variables(listed: Any) -> list[str]:
    entries = listed if isinstance(listed, list) else ()
    found = (one.get("name") for one in entries if isinstance(one, Mapping))
    return [name for name in found if isinstance(name, str)]


def _list_approver_inputs(spec: Any) -> list[str]:
    asked = spec.get("approverInputs") if isinstance(spec, Mapping) else None
    listed = asked if isinstance(asked, list) else ()
    return [str(one["name"]) for one in listed if isinstance(one, Mapping) and one.get("name")]


PROVISIONER_ROOT: Final = "provisioner"


def list_provisioner_types() -> list[str]:
    """The types of steps that make infrastructure."""
    return [name for name, kind in get_step_kinds().items() if kind.provisions]


def is_provisioner_path(path: str) -> bool:
    """Whether a path names an output of a provisioner."""
    return path.partition(".")[0] == PROVISIONER_ROOT


def list_provisioner_outputs(steps: Iterable[tuple[str, Mapping[str, Any]]]) -> set[str] | None:
    """The outputs that provisioning steps can have, by type and spec; None where only a run tells."""
    found: set[str] = set()
    for type_, spec in steps:
        told = list_all_outputs(type_, spec)
        if told is None:
            return None
        found |= told
    return found


def describe_path_problem(path: str, known: set[str] | None, *, has_any: bool) -> str:
    """What is wrong with `provisioner.NAME` behind these steps, or nothing."""
    name = path.partition(".")[2]
    if not name:
        return f"<+{path}> says too little: write <+provisioner.name>."
    if not has_any:
        return (
            f"<+{path}> is the output of a provisioner, and no step before this makes infrastructure: add "
            "one, such as ShellScriptProvision, under environment.provisioner.steps of the stage."
        )
    if known is None or name.partition(".")[0] in known:
        return ""
    near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.4)
    hint = f" Did you mean <+provisioner.{near[0]}>?" if near else ""
    return f"<+{path}> is no output of the provisioner.{hint}"


def requires_cluster(type_: str) -> bool:
    """Whether a step looks into the cluster, which the provisioner of its stage has still to make."""
    return type_.startswith("Ecs")
