"""Policy rules on the image and the manifests of a run, with resolved expressions and fetched files."""

from collections.abc import Mapping, Sequence
from typing import Any

from catalog.models import Manifest
from deployments.execution.policy_documents import build_artifact_facts, build_execution_document
from deployments.models import Execution, StageExecution
from pipelines.definition.parser import InvalidPipelineError, parse_pipeline
from policies.evaluation import RulesInForce, Violation
from policies.models import PolicyRule
from steps.actions.base import ActionFailed
from steps.actions.context import LoadedManifest
from steps.actions.manifests import ARN_FIELD


def check_manifest_policies(
    execution: Execution, stage: StageExecution, kind: str, manifests: Sequence[LoadedManifest]
) -> list[str]:
    """Return the messages of the rules that only warn; one query without rules.

    Raises `ActionFailed` for rules that refuse. These only warn of a rollback to an earlier deployment, which
    must be possible.
    """
    if kind not in Manifest.Kind.values:
        return []
    rules = RulesInForce(execution.scope, [PolicyRule.Subject.MANIFEST])
    if not rules.rules or not {"service", "env"} <= stage.values.keys():
        return []
    facts = _build_target_facts(execution, stage)
    violations = rules.find_violations(
        PolicyRule.Subject.MANIFEST,
        lambda: [
            {"kind": kind, "manifest": manifest.value, **facts}
            for manifest in manifests
            if ARN_FIELD not in manifest.value
        ],
    )
    _require_no_refusals(execution, violations)
    return [violation.message for violation in violations]


def check_image_policies(execution: Execution, artifact: Mapping[str, Any]) -> list[str]:
    """Return the messages of the rules for runs that only warn of a resolved image, and did not before.

    One query without rules. Raises as `check_manifest_policies` does.
    """
    rules = RulesInForce(execution.scope, [PolicyRule.Subject.RUN])
    if not rules.rules:
        return []
    try:
        document = build_execution_document(execution, parse_pipeline(execution.yaml, has_run=True))
    except InvalidPipelineError as invalid:
        # Valid for the release that started the run.
        message = f"The policy rules for runs cannot be evaluated: {invalid}. Start a new run."
        if execution.rerun_of_id is None:
            raise ActionFailed("POLICY_VIOLATED", message) from invalid
        return [message]
    resolved = document | {"artifact": build_artifact_facts(artifact)}
    violations = rules.find_violations(PolicyRule.Subject.RUN, lambda: [resolved])
    _require_no_refusals(execution, violations)
    # The log has the messages of the start already.
    known = {
        violation.message for violation in rules.find_violations(PolicyRule.Subject.RUN, lambda: [document])
    }
    return [violation.message for violation in violations if violation.message not in known]


def _require_no_refusals(execution: Execution, violations: Sequence[Violation]) -> None:
    refusals = [violation.message for violation in violations if violation.is_refusal]
    if refusals and execution.rerun_of_id is None:
        raise ActionFailed("POLICY_VIOLATED", "\n".join(refusals))


def _build_target_facts(execution: Execution, stage: StageExecution) -> dict[str, dict[str, str]]:
    """Return service and environment as of the start; they, or the infrastructure, may be deleted since."""
    service, environment = stage.values["service"], stage.values["env"]
    scope = stage.service.scope if stage.service else execution.scope
    return {
        "service": {"identifier": service["identifier"], "name": service["name"], "scope": scope.path},
        "environment": {
            "identifier": environment["identifier"],
            "name": environment["name"],
            "kind": environment["type"],
        },
    }
