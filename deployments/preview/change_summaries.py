"""Summaries of planned writes in one sentence each."""

from collections.abc import Mapping
from typing import Any

from aws.apis.ecs_types import get_arn_name
from aws.preview import PlannedCall
from steps.actions.ecs_service.daemons import is_daemon
from steps.actions.ecs_service.native_strategies import describe_strategy


def summarize_write(call: PlannedCall) -> str:
    """Return one sentence about a write; empty if its name is sufficient."""
    describe = _SENTENCES.get(call.operation)
    return describe(call.params, call.before) if describe else ""


Params = Mapping[str, Any]


def _describe_service_creation(params: Params, _: Params) -> str:
    count = "one task on each matching container instance"
    if not is_daemon(params):
        count = _format_tasks(params.get("desiredCount", 1))
    return f"Service {params['serviceName']} is created with {count}.{_add_strategy(params)}"


def _describe_service_update(params: Params, before: Params) -> str:
    name, old = get_arn_name(params["service"]), before.get("desiredCount", 0)
    new = params.get("desiredCount", old)
    count = f"keeps its desired count of {old}" if new == old else f"goes from {_format_tasks(old)} to {new}"
    if controller := params.get("deploymentController"):
        return f"Service {name} is deployed by {controller['type']} from now on, in place."
    if is_daemon(before):
        count = f"keeps one task on each of {old} container instances"
    replacement = ", and all its tasks are replaced" if params.get("forceNewDeployment") else ""
    return f"Service {name} {count}{replacement}.{_add_strategy(params)}"


def _add_strategy(params: Params) -> str:
    strategy = describe_strategy(params)
    return f" {strategy}" if strategy else ""


def _describe_service_deletion(params: Params, before: Params) -> str:
    return (
        f"Service {get_arn_name(params['service'])} is deleted; it has "
        f"{_format_tasks(before.get('desiredCount', 0))}."
    )


def _describe_listener(params: Params, before: Params) -> str:
    if "DefaultActions" not in params:
        return f"{_format_listener(params, before)} is changed."
    old, new = _format_groups(before.get("DefaultActions")), _format_groups(params["DefaultActions"])
    return f"{_format_listener(params, before)} sends its traffic to {new} instead of {old}."


def _describe_rule(params: Params, before: Params) -> str:
    name = f"The rule with priority {before.get('Priority', '?')} ({get_arn_name(params['RuleArn'])})"
    old, new = _format_groups(before.get("Actions")), _format_groups(params.get("Actions"))
    return f"{name} sends its traffic to {new} instead of {old}."


def _format_listener(params: Params, before: Params) -> str:
    port = f"on port {before['Port']} " if "Port" in before else ""
    return f"The listener {port}({get_arn_name(params['ListenerArn'])})"


def _format_groups(actions: Any) -> str:
    names: list[str] = []
    for action in actions or ():
        weighted = action.get("ForwardConfig", {}).get("TargetGroups") or [action]
        names += [
            _format_group(target_group, len(weighted))
            for target_group in weighted
            if target_group.get("TargetGroupArn")
        ]
    return " and ".join(dict.fromkeys(names)) or "no target group"


def _format_group(group: Params, count: int) -> str:
    parts = str(group["TargetGroupArn"]).split("/")
    name = parts[1] if len(parts) > 1 else parts[0]
    return f"{name} (weight {group['Weight']})" if count > 1 and "Weight" in group else name


def _describe_task_run(params: Params, _: Params) -> str:
    count, definition = params.get("count", 1), get_arn_name(params["taskDefinition"])
    # A placeholder is the revision that a call above registers.
    task_definition = "the new task definition" if definition.startswith("<") else definition
    return f"{_format_tasks(count).capitalize()} of {task_definition} {'is' if count == 1 else 'are'} run."


def _describe_target(params: Params, _: Params) -> str:
    name = get_arn_name(params["ResourceId"])
    suspended = params.get("SuspendedState")
    if suspended is not None and "MinCapacity" not in params:
        word = "suspended" if any(suspended.values()) else "resumed"
        return f"Auto scaling of service {name} is {word}."
    least, most = params.get("MinCapacity", "?"), params.get("MaxCapacity", "?")
    return f"Service {name} scales between {least} and {most} tasks."


def _describe_target_removal(params: Params, _: Params) -> str:
    return f"Service {get_arn_name(params['ResourceId'])} loses its auto scaling."


def _describe_stack_creation(params: Params, _: Params) -> str:
    return f"Stack {params['StackName']} is created."


def _describe_stack_update(params: Params, _: Params) -> str:
    return f"Stack {params['StackName']} is updated where the template or a parameter differs."


def _describe_stack_deletion(params: Params, _: Params) -> str:
    identifier = str(params["StackName"])
    name = identifier.split("/")[1] if identifier.count("/") > 1 else identifier
    return f"Stack {name} is deleted with all that it made."


def _describe_script(params: Params, _: Params) -> str:
    lines = len(str(params["script"]).splitlines())
    return f"A script of {lines} line{'' if lines == 1 else 's'} is run at a delegate."


def _describe_request(params: Params, _: Params) -> str:
    return f"{params['method']} {params['url']} is sent."


def _describe_terraform_cloud(params: Params, _: Params) -> str:
    path = [str(part) for part in params["path"]]
    if "workspaces" not in path:
        return "The run that was planned is applied in Terraform Cloud."
    name = "/".join([*path[1:2], path[-1]]) if path[0] == "organizations" else path[-1]
    return f"Terraform Cloud is asked for a run in workspace {name}."


def _format_tasks(count: int) -> str:
    return "1 task" if count == 1 else f"{count} tasks"


def _describe_terraform(params: Params, _: Params) -> str:
    program, command = params.get("program", "terraform"), params["command"]
    if "plan_id" in params:
        return f"The plan of an earlier step is applied with {program} at a delegate."
    folder = f" in {params['folder']}" if params.get("folder") not in (None, "", ".") else ""
    return (
        f"{program} {command} runs at a delegate, with {_format_files(len(params.get('files', ())))}{folder}."
    )


def _format_files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"


_SENTENCES = {
    "CreateService": _describe_service_creation,
    "UpdateService": _describe_service_update,
    "DeleteService": _describe_service_deletion,
    "ModifyListener": _describe_listener,
    "ModifyRule": _describe_rule,
    "RunTask": _describe_task_run,
    "CreateStack": _describe_stack_creation,
    "UpdateStack": _describe_stack_update,
    "DeleteStack": _describe_stack_deletion,
    "RunScript": _describe_script,
    "RunTerraform": _describe_terraform,
    "SendRequest": _describe_request,
    "AskTerraformCloud": _describe_terraform_cloud,
    "RegisterScalableTarget": _describe_target,
    "DeregisterScalableTarget": _describe_target_removal,
}
