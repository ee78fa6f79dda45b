"""Summaries of planned writes in one sentence each."""

from collections.abc import Mapping
from typing import Any

from aws.apis.ecs_types import get_arn_name
from aws.preview import PlannedCall


def summarize_write(call: PlannedCall) -> str:
    """One sentence for a write; empty if its name says all that there is to say."""
    describe = _SENTENCES.get(call.operation)
    return describe(call.params, call.before) if describe else ""


Params = Mapping[str, Any]


def _created(params: Params, _: Params) -> str:
    return f"Service {params['serviceName']} is created with {_tasks(params.get('desiredCount', 1))}."


def _updated(params: Params, before: Params) -> str:
    name, old = get_arn_name(params["service"]), before.get("desiredCount", 0)
    new = params.get("desiredCount", old)
    count = f"keeps its desired count of {old}" if new == old else f"goes from {_tasks(old)} to {new}"
    anew = ", and all its tasks are replaced" if params.get("forceNewDeployment") else ""
    return f"Service {name} {count}{anew}."


def _deleted(params: Params, before: Params) -> str:
    return (
        f"Service {get_arn_name(params['service'])} is deleted; it has "
        f"{_tasks(before.get('desiredCount', 0))}."
    )


def _listener(params: Params, before: Params) -> str:
    if "DefaultActions" not in params:
        return f"{_listener_name(params, before)} is changed."
    old, new = _groups(before.get("DefaultActions")), _groups(params["DefaultActions"])
    return f"{_listener_name(params, before)} sends its traffic to {new} instead of {old}."


def _rule(params: Params, before: Params) -> str:
    name = f"The rule with priority {before.get('Priority', '?')} ({get_arn_name(params['RuleArn'])})"
    old, new = _groups(before.get("Actions")), _groups(params.get("Actions"))
    return f"{name} sends its traffic to {new} instead of {old}."


def _listener_name(params: Params, before: Params) -> str:
    port = f"on port {before['Port']} " if "Port" in before else ""
    return f"The listener {port}({get_arn_name(params['ListenerArn'])})"


def _groups(actions: Any) -> str:
    found: list[str] = []
    for action in actions or ():
        weighted = action.get("ForwardConfig", {}).get("TargetGroups") or [action]
        found += [_weighted(one, len(weighted)) for one in weighted if one.get("TargetGroupArn")]
    return " and ".join(dict.fromkeys(found)) or "no target group"


def _weighted(group: Params, of: int) -> str:
    parts = str(group["TargetGroupArn"]).split("/")
    name = parts[1] if len(parts) > 1 else parts[0]
    return f"{name} (weight {group['Weight']})" if of > 1 and "Weight" in group else name


def _run(params: Params, _: Params) -> str:
    count, definition = params.get("count", 1), get_arn_name(params["taskDefinition"])
    # A placeholder is the revision that a call above registers.
    what = "the new task definition" if definition.startswith("<") else definition
    return f"{_tasks(count).capitalize()} of {what} {'is' if count == 1 else 'are'} run."


def _scaled(params: Params, _: Params) -> str:
    name = get_arn_name(params["ResourceId"])
    suspended = params.get("SuspendedState")
    if suspended is not None and "MinCapacity" not in params:
        word = "suspended" if any(suspended.values()) else "resumed"
        return f"Auto scaling of service {name} is {word}."
    least, most = params.get("MinCapacity", "?"), params.get("MaxCapacity", "?")
    return f"Service {name} scales between {least} and {most} tasks."


def _unscaled(params: Params, _: Params) -> str:
    return f"Service {get_arn_name(params['ResourceId'])} loses its auto scaling."


def _stack_created(params: Params, _: Params) -> str:
    return f"Stack {params['StackName']} is created."


def _stack_updated(params: Params, _: Params) -> str:
    return f"Stack {params['StackName']} is updated where the template or a parameter differs."


def _stack_deleted(params: Params, _: Params) -> str:
    named = str(params["StackName"])
    name = named.split("/")[1] if named.count("/") > 1 else named
    return f"Stack {name} is deleted with all that it made."


def _script(params: Params, _: Params) -> str:
    lines = len(str(params["script"]).splitlines())
    return f"A script of {lines} line{'' if lines == 1 else 's'} is run at a delegate."


def _request(params: Params, _: Params) -> str:
    return f"{params['method']} {params['url']} is sent."


def _terraform_cloud(params: Params, _: Params) -> str:
    path = [str(part) for part in params["path"]]
    if "workspaces" not in path:
        return "The run that was planned is applied in Terraform Cloud."
    name = "/".join([*path[1:2], path[-1]]) if path[0] == "organizations" else path[-1]
    return f"Terraform Cloud is asked for a run in workspace {name}."


def _tasks(count: int) -> str:
    return "1 task" if count == 1 else f"{count} tasks"


def _terraform(params: Params, _: Params) -> str:
    program, command = params.get("program", "terraform"), params["command"]
    if "plan_id" in params:
        return f"The plan of an earlier step is applied with {program} at a delegate."
    of = f" in {params['folder']}" if params.get("folder") not in (None, "", ".") else ""
    return f"{program} {command} runs at a delegate, with {_files(len(params.get('files', ())))}{of}."


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"


_SENTENCES = {
    "CreateService": _created,
    "UpdateService": _updated,
    "DeleteService": _deleted,
    "ModifyListener": _listener,
    "ModifyRule": _rule,
    "RunTask": _run,
    "CreateStack": _stack_created,
    "UpdateStack": _stack_updated,
    "DeleteStack": _stack_deleted,
    "RunScript": _script,
    "RunTerraform": _terraform,
    "SendRequest": _request,
    "AskTerraformCloud": _terraform_cloud,
    "RegisterScalableTarget": _scaled,
    "DeregisterScalableTarget": _unscaled,
}
