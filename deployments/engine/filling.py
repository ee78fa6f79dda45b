"""Settles where a stage with a dynamic infrastructure deploys, once its provisioner's steps have ended."""

from typing import Any

from catalog import infrastructure_fields
from deployments.engine.shared import Shared
from deployments.engine.telling import say
from deployments.models import Slot, StageExecution, StepExecution
from steps.actions.base import ActionFailed
from steps.expressions import BadExpressionError, resolve

_CODE = "PLACE_NOT_KNOWN"


def settle_place(shared: Shared, step: StepExecution) -> None:
    """Before the first step behind the provisioner's: read region and cluster, and let the stage go there.

    A stage that is settled stays where it is. Raises `ActionFailed` with what is not known or not right.
    """
    stage = shared.stage
    if stage.dynamic_place is None or stage.is_placed or step.position < stage.provisioner_steps:
        return
    found = _place(shared)
    with shared.commit(reload=True):
        stage.region, stage.cluster, stage.account = found["region"], found["cluster"], ""
        stage.values = {**stage.values, "infra": {**stage.values.get("infra", {}), **found}}
        stage.save(update_fields=["region", "cluster", "account", "values"])
        forget_claims(stage)
        say(shared, step, f"Deploying to the provisioned cluster {stage.cluster} in {stage.region}")
    shared.forget_claims()


def _place(shared: Shared) -> dict[str, str]:
    stage = shared.stage
    values = shared.known_values()
    said: dict[str, Any] = stage.dynamic_place or {}
    found: dict[str, str] = {}
    for name, problem_of in (
        ("region", infrastructure_fields.region_problem),
        ("cluster", infrastructure_fields.cluster_problem),
    ):
        text = str(said.get(name, ""))
        try:
            found[name] = str(resolve(text, values)).strip()
        except BadExpressionError as bad:
            raise ActionFailed(_CODE, f"The {name} of the infrastructure, {text}: {bad.message}") from bad
        if problem := problem_of(found[name]):
            what = f"The {name} of the infrastructure, {text}, came to {found[name][:100]!r}."
            raise ActionFailed(_CODE, shared.mask.text(f"{what} {problem}"))
    return found


def forget_place(stage: StageExecution) -> None:
    """Let a stage whose provisioner runs again settle anew where it deploys; inside a commit."""
    if stage.dynamic_place is None:
        return
    infra = stage.values.get("infra", {})
    stage.values = {
        **stage.values,
        "infra": {name: value for name, value in infra.items() if name not in ("region", "cluster")},
    }
    stage.region = stage.cluster = ""
    stage.save(update_fields=["region", "cluster", "values"])
    forget_claims(stage)


def forget_claims(stage: StageExecution) -> None:
    """Let go of ECS services in a place that the stage has left; inside a commit."""
    Slot.objects.filter(stage=stage).delete()
    stage.claims.all().delete()
