"""Finds out what became of a change in Terraform Cloud whose answer was lost: nothing is done twice."""

from datetime import timedelta
from typing import Any, Final

from steps.actions.base import AskAgain, CallRecord, DidNot, Happened, Rollout, Verdict
from steps.actions.terraform_cloud.api import TerraformCloud, told_run

# Until then a request that nobody has heard of may still be on its way.
_ON_ITS_WAY: Final = timedelta(seconds=30)
_DONE: Final = {"status": 202, "body": "", "size": -1}


def adopt_call(rollout: Rollout, connector: str, call: CallRecord, workspace: str) -> Verdict:
    """Say whether a run was made, by its message, or an action taken, by where its run stands."""
    cloud = TerraformCloud(rollout, connector)
    path = [str(one) for one in call.params["path"]]
    if path == ["runs"]:
        return _adopt_run(cloud, call, workspace)
    if path[0] == "runs":
        return _adopt_action(cloud, call, path[1], path[-1])
    # Overriding what is overridden already is refused without harm.
    return _not_yet(rollout, call)


def _adopt_run(cloud: TerraformCloud, call: CallRecord, workspace: str) -> Verdict:
    message = str(call.params["body"]["data"]["attributes"]["message"])
    for run in cloud.runs(workspace):
        if run.message == message:
            return Happened(told_run(run.raw))
    return _not_yet(cloud.rollout, call)


def _adopt_action(cloud: TerraformCloud, call: CallRecord, run_id: str, verb: str) -> Verdict:
    run = cloud.run(run_id)
    is_open = {"apply": run.is_confirmable, "discard": run.is_discardable, "cancel": run.is_cancelable}
    if is_open.get(verb, False):
        return _not_yet(cloud.rollout, call)
    return Happened(_done())


def _done() -> dict[str, Any]:
    return dict(_DONE)


def _not_yet(rollout: Rollout, call: CallRecord) -> Verdict:
    return DidNot() if rollout.now() - call.sent_at > _ON_ITS_WAY else AskAgain()
