"""Policy rules on the manifests of a run, with resolved expressions and fetched files."""

from collections.abc import Sequence

from catalog.models import Manifest
from catalog.overrides.policy_checks import build_manifest_document
from deployments.models import Execution, StageExecution
from policies.evaluation import RulesInForce
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
    if not rules.rules or stage.service is None:
        return []
    service = stage.service
    environment = stage.infrastructure.environment if stage.infrastructure else None
    violations = rules.find_violations(
        PolicyRule.Subject.MANIFEST,
        lambda: [
            build_manifest_document(kind, manifest.value, service, environment)
            for manifest in manifests
            if ARN_FIELD not in manifest.value
        ],
    )
    refusals = [violation.message for violation in violations if violation.is_refusal]
    if refusals and execution.rerun_of_id is None:
        raise ActionFailed("POLICY_VIOLATED", "\n".join(refusals))
    return [violation.message for violation in violations]
