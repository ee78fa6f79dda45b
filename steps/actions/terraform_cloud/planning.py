"""What a plan came to: whether the run may go on, and what it would change."""

from steps.actions.base import ActionFailed, Rollout
from steps.actions.terraform_cloud.api import TerraformCloud
from steps.actions.terraform_cloud.runs import Run

_ENDED_BY_PEOPLE = ("discarded", "canceled", "force_canceled")


def judge_plan(cloud: TerraformCloud, run: Run, *, overrides: bool, plan_only: bool) -> None:
    """Raises `ActionFailed` where the run cannot go on from its plan."""
    refuse_ended(run, "plan")
    is_broken = run.status == "policy_soft_failed" or (run.is_undecided and not overrides)
    if is_broken and not plan_only:
        raise ActionFailed(
            "POLICY_FAILED",
            f"Run {run.id} {run.words}{_policies(cloud, run)}. Mend the configuration, or let the step "
            "override policies where the token may.",
        )
    if is_broken:
        cloud.rollout.log(f"Run {run.id} {run.words}{_policies(cloud, run)}", "warning")


def refuse_ended(run: Run, phase: str) -> None:
    """Raises `ActionFailed` for a run that errored, or that people ended."""
    if run.status == "errored":
        raise ActionFailed(
            "TERRAFORM_FAILED", f"The {phase} of run {run.id} ended with an error. Its log above says why."
        )
    if run.status in _ENDED_BY_PEOPLE:
        raise ActionFailed(
            "RUN_ENDED", f"Somebody ended the run in Terraform Cloud: run {run.id} {run.words}."
        )


def tell_plan(rollout: Rollout, run: Run) -> None:
    """Say and hand on what the plan would change."""
    added, changed, destroyed = run.plan.counts
    rollout.log(f"Plan: {added} to add, {changed} to change, {destroyed} to destroy")
    rollout.learn(
        planStatus="CHANGES" if run.has_changes else "NO_CHANGES",
        resourcesToAdd=added,
        resourcesToChange=changed,
        resourcesToDestroy=destroyed,
    )


def _policies(cloud: TerraformCloud, run: Run) -> str:
    """The policies that the run broke, by name."""
    found: list[str] = []
    for check in cloud.listed(("runs", run.id, "policy-checks"), "the policy checks of the run"):
        attributes = check.get("attributes") or {}
        if attributes.get("status") not in ("passes", "passed", "overridden"):
            found += _names(attributes.get("result") or {})
    listed = ", ".join(dict.fromkeys(found))
    return f": {listed[:300]}" if listed else ""


def _names(result: dict[str, object]) -> list[str]:
    """The policies in a result of Sentinel that did not pass."""
    sentinel = result.get("sentinel")
    sets = sentinel.get("data") if isinstance(sentinel, dict) else None
    found: list[str] = []
    for one in sets.values() if isinstance(sets, dict) else ():
        policies = one.get("policies") if isinstance(one, dict) else None
        for policy in policies if isinstance(policies, list) else ():
            if isinstance(policy, dict) and policy.get("result") is False:
                named = policy.get("policy")
                found.append(str(named.get("name") if isinstance(named, dict) else named))
    return found
