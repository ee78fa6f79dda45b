"""Terraform Cloud steps: run in a workspace, and its rollback (R186)."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from connectors.secret_expressions import find_secret_references, parse_secret_reference
from steps.actions.base import Action
from steps.actions.terraform_cloud.run_creation import CreateTerraformCloudRun
from steps.actions.terraform_cloud.run_decisions import (
    RUN_STEP_TYPE,
    ConfirmTerraformCloudRun,
    EndTerraformCloudRun,
    FindTerraformCloudRun,
    OverrideTerraformCloudPolicies,
    ReadTerraformCloudOutputs,
)
from steps.expressions import format_value, has_expression
from steps.kinds.registry import BadStepError, Plan, SpecColumn, describe_field, step, unit
from steps.variables import SECRET_TYPE, TEXT_TYPE, describe_variable_problem

ROLLBACK_TYPE = "TerraformCloudRollback"
REFRESH, PLAN_ONLY, APPLY_ALL, DESTROY_ALL, PLAN, APPLY = RUN_TYPES = (
    "RefreshState",
    "PlanOnly",
    "PlanAndApply",
    "PlanAndDestroy",
    "Plan",
    "Apply",
)
HCL_TYPE = "Hcl"
VARIABLE_TYPES = (TEXT_TYPE, SECRET_TYPE, HCL_TYPE)
_NAME = re.compile(r"[A-Za-z0-9_-]{1,90}\Z")
_CONNECTOR = re.compile(r"(?:account\.|org\.)?[A-Za-z_][\w$-]{0,127}\Z", re.ASCII)
_TARGET = re.compile(r"[^\x00-\x1f\"]{1,300}\Z")
_VERSION = re.compile(r"[\w.+-]{0,40}\Z", re.ASCII)
MESSAGE_CHARACTERS = 300


@dataclass(frozen=True)
class TerraformCloudRunSpec:
    """Settings of a run in a workspace.

    The fields may also stand below `spec`, next to `runType`.
    """

    runType: str = field(
        default=APPLY_ALL,
        metadata=describe_field(
            "PlanOnly changes nothing. Plan leaves the run for a later step of type Apply.", *RUN_TYPES
        ),
    )
    connectorRef: str = field(
        default="",
        metadata=describe_field("The connector to Terraform Cloud: name, org.name or account.name."),
    )
    organization: str = field(default="", metadata=describe_field("Its name in Terraform Cloud."))
    workspace: str = field(default="", metadata=describe_field("Its name, or its id, which begins with ws-."))
    runMessage: str = field(
        default="", metadata=describe_field("What the run is for, as its page there shows it.")
    )
    planType: str = field(
        default="Apply", metadata=describe_field("What PlanOnly and Plan are a plan of.", "Apply", "Destroy")
    )
    variables: list[dict[str, Any]] = field(
        default_factory=list,
        metadata=describe_field(
            "Of this run alone. For the type Secret, enter its identifier, such as account.token; for Hcl, "
            'an expression, such as ["a", "b"].',
            columns=(
                SpecColumn("name", is_needed=True),
                SpecColumn("type", "choice", choices=VARIABLE_TYPES, default=TEXT_TYPE),
                SpecColumn("value"),
            ),
        ),
    )
    targets: list[str] = field(
        default_factory=list, metadata=describe_field("Only these resources, such as aws_ecs_cluster.main.")
    )
    discardPendingRuns: bool = field(
        default=False,
        metadata=describe_field("Discard runs of the workspace that wait for somebody's confirmation."),
    )
    overridePolicies: bool = field(
        default=False, metadata=describe_field("Override soft mandatory policies that the run breaks.")
    )
    provisionerIdentifier: str = field(
        default="", metadata=describe_field("A name by which a step of type Apply finds its plan.")
    )
    runId: str = field(
        default="",
        metadata=describe_field(
            "Of Apply: the run, such as <+steps.plan.output.runId>. Empty: the last plan's."
        ),
    )
    terraformVersion: str = field(default="", metadata=describe_field("Of PlanOnly alone.", is_rare=True))
    exportTerraformPlanJson: bool = field(default=False, metadata=describe_field("", is_rare=True))
    spec: dict[str, Any] = field(
        default_factory=dict, metadata=describe_field("Instead of the fields beside it.", is_rare=True)
    )

    def __post_init__(self) -> None:
        """Raise `BadStepError` for an invalid spec."""
        if problem := next(self._list_problems(), ""):
            raise BadStepError(f"{RUN_STEP_TYPE}: {problem}")

    @property
    def merged(self) -> "TerraformCloudRunSpec":
        """Return the spec with the fields below `spec` merged into the others."""
        return replace(self, **{"spec": {}, **self.spec}) if self.spec else self

    @property
    def deploys(self) -> bool:
        """Return whether the run may change infrastructure; a plan does not."""
        return self.merged.runType not in (PLAN_ONLY, PLAN)

    def _list_problems(self) -> Iterator[str]:
        # Fields of a spec may be expressions, which are texts.
        if not isinstance(self.spec, dict):
            yield "spec has fields, and is no expression"
            return
        if self.spec:
            yield from self._list_nested_problems()
            return
        if self.runType not in RUN_TYPES:
            yield f"runType is one of {', '.join(RUN_TYPES)}, not {self.runType[:60]!r}"
        if self.planType not in ("Apply", "Destroy"):
            yield f"planType is Apply or Destroy, not {self.planType[:60]!r}"
        yield from self._list_location_problems()
        yield from self._list_run_problems()

    def _list_run_problems(self) -> Iterator[str]:
        if problem := describe_variable_problem(self.variables, "variable", VARIABLE_TYPES):
            yield problem
        if any(not isinstance(target, str) or not _TARGET.match(target) for target in self.targets):
            yield "targets is a list of addresses of resources, such as aws_ecs_cluster.main"
        if len(self.runMessage) > MESSAGE_CHARACTERS:
            yield f"runMessage has {MESSAGE_CHARACTERS} characters at most"
        if self.terraformVersion and self.runType != PLAN_ONLY:
            yield "terraformVersion can be chosen for PlanOnly alone: others use the workspace's"
        if not _VERSION.match(self.terraformVersion) and not has_expression(self.terraformVersion):
            yield "terraformVersion is a version such as 1.11.0"

    def _list_nested_problems(self) -> Iterator[str]:
        names = {spec_field.name for spec_field in fields(self)} - {"spec"}
        for name, value in self.spec.items():
            if name not in names:
                yield f"spec has no field {name}; it has {', '.join(sorted(names))}"
                return
            expected = type(getattr(self, name))
            if not isinstance(value, expected) and not (isinstance(value, str) and has_expression(value)):
                yield f"{name} under spec is of the wrong type"
                return
        if self.merged.spec:
            yield "spec stands below spec"

    def _list_location_problems(self) -> Iterator[str]:
        if not self.connectorRef:
            yield "it needs connectorRef, a connector to Terraform Cloud"
        elif not _CONNECTOR.match(self.connectorRef):
            # Access to the connector is checked when the pipeline is saved and run, so it must be fixed.
            yield f"connectorRef is no reference of a connector: {self.connectorRef[:60]!r}"
        if self.runType == APPLY:
            return
        if not self.workspace:
            yield "it needs workspace, its name or its id"
        if (
            not self.organization
            and not self.workspace.startswith("ws-")
            and not has_expression(self.workspace)
        ):
            yield "it needs organization, unless workspace is an id"
        for name in ("organization", "workspace", "runId"):
            value = getattr(self, name)
            if value and not has_expression(value) and not _NAME.match(value):
                yield f"{name} has letters, digits, - and _, not {value[:60]!r}"

    @property
    def secret_references(self) -> tuple[str, ...]:
        """Return the secrets among the variables of the run."""
        variables = self.merged.variables
        values = [(variable.get("type"), format_value(variable.get("value", ""))) for variable in variables]
        own = [value for kind, value in values if kind == SECRET_TYPE and not parse_secret_reference(value)]
        return tuple(dict.fromkeys([*own, *find_secret_references(*(value for _, value in values))]))

    @property
    def connector_references(self) -> tuple[tuple[str, str], ...]:
        """Return the connector of the step with its required kind."""
        return ((self.merged.connectorRef, "TerraformCloud"),)


@dataclass(frozen=True)
class TerraformCloudRollbackSpec:
    """Settings of the rollback of the stage's runs; it has no choices."""

    provisionerIdentifier: str = field(default="", metadata=describe_field("", is_rare=True))
    runMessage: str = field(default="", metadata=describe_field("", is_rare=True))
    discardPendingRuns: bool = field(default=False, metadata=describe_field("", is_rare=True))
    overridePolicies: bool = field(default=False, metadata=describe_field("", is_rare=True))
    spec: dict[str, Any] = field(default_factory=dict, metadata=describe_field("", is_rare=True))


_OUTPUTS = {
    "runId": "The id of the run.",
    "workspaceId": "The id of the workspace.",
    "provisionerIdentifier": "The name that the step gives its plan.",
    "planStatus": "CHANGES or NO_CHANGES.",
    "resourcesToAdd": "How many resources the plan adds.",
    "resourcesToChange": "How many resources the plan changes.",
    "resourcesToDestroy": "How many resources the plan destroys.",
    "applyStatus": "APPLIED or NOTHING_TO_APPLY.",
    "endedRunId": "The run that was left open and had to be ended.",
}


@step(
    RUN_STEP_TYPE,
    title="Terraform Cloud Run",
    spec=TerraformCloudRunSpec,
    outputs=_OUTPUTS,
    undone_by=ROLLBACK_TYPE,
    timeout_minutes=60,
    # Secrets in variables are sent only to Terraform Cloud.
    scripts=("variables", "spec"),
    secrets=("variables.*.value",),
    starter={
        "runType": APPLY_ALL,
        "connectorRef": "terraform",
        "organization": "acme",
        "workspace": "network",
    },
    provisions=True,
)
def terraform_cloud_run(spec: TerraformCloudRunSpec) -> Plan:
    """Plan in the workspace, and apply what was planned; the outputs of its state are those of the step."""
    merged = spec.merged
    connector = merged.connectorRef
    if merged.runType == APPLY:
        yield unit("Plan", FindTerraformCloudRun(connector, merged.runId, merged.provisionerIdentifier))
    else:
        yield unit("Plan", *_list_plan_actions(merged))
    if merged.runType in (APPLY_ALL, DESTROY_ALL, REFRESH, APPLY):
        yield unit("Apply", ConfirmTerraformCloudRun(connector))
    if merged.runType in (APPLY_ALL, REFRESH, APPLY):
        yield unit("Outputs", ReadTerraformCloudOutputs(connector))
    yield unit("End", EndTerraformCloudRun(connector, keeps=merged.runType == PLAN))


@step(
    ROLLBACK_TYPE,
    title="Terraform Cloud Rollback",
    spec=TerraformCloudRollbackSpec,
    undoes=(RUN_STEP_TYPE,),
    timeout_minutes=60,
    provisions=True,
)
def terraform_cloud_rollback(spec: TerraformCloudRollbackSpec) -> Plan:
    """Apply again what was applied before, or destroy what the run made where there was nothing."""
    yield from ()


def _list_plan_actions(spec: TerraformCloudRunSpec) -> Iterator[Action]:
    texts, hcl, secrets = _split_variables(spec.variables)
    is_open = spec.runType in (PLAN_ONLY, PLAN) and spec.planType == "Destroy"
    yield CreateTerraformCloudRun(
        spec.connectorRef,
        spec.organization,
        spec.workspace,
        spec.runMessage,
        is_destroy=spec.runType == DESTROY_ALL or is_open,
        plan_only=spec.runType == PLAN_ONLY,
        refresh_only=spec.runType == REFRESH,
        discards_pending=spec.discardPendingRuns,
        overrides_policies=spec.overridePolicies,
        targets=list(spec.targets),
        texts=texts,
        hcl=hcl,
        secrets=secrets,
        terraform_version=spec.terraformVersion,
        provisioner=spec.provisionerIdentifier,
    )
    if spec.overridePolicies and spec.runType != PLAN_ONLY:
        yield OverrideTerraformCloudPolicies(spec.connectorRef)


def _split_variables(
    variables: list[Mapping[str, Any]] | list[dict[str, Any]],
) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Return texts, HCL expressions, and secret references of the variables, each by name."""
    texts: dict[str, str] = {}
    hcl: dict[str, str] = {}
    secrets: dict[str, str] = {}
    for variable in variables:
        name, kind, value = str(variable["name"]), variable.get("type", TEXT_TYPE), variable.get("value", "")
        text = format_value(value)
        if reference := parse_secret_reference(text):
            secrets[name] = reference
        elif kind == SECRET_TYPE:
            secrets[name] = text
        elif kind == HCL_TYPE or not isinstance(value, str):
            hcl[name] = text
        else:
            texts[name] = text
    return texts, hcl, secrets
