"""Terraform and Terragrunt steps: plan, apply, destroy, rollback (R186, R187)."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from connectors.secret_expressions import find_secret_references
from guards.limits import NAME_CHARACTERS, SPEC_BYTES
from steps.actions.terraform import (
    FROM_APPLY,
    FROM_PLAN,
    INLINE,
    TERRAFORM,
    TERRAFORM_CONFIGURATION,
    TERRAGRUNT,
    TITLES,
    ApplyTerraform,
    DestroyTerraform,
    PlanTerraform,
    TerraformSettings,
    normalize_variables,
)
from steps.expressions import has_expression
from steps.kinds.registry import BadStepError, Plan, SpecColumn, describe_field, step, unit
from steps.variables import SECRET_TYPE, TEXT_TYPE, describe_variable_problem

_TYPES: tuple[str, ...] = (TEXT_TYPE, "Number", SECRET_TYPE)
_VARIABLE = (
    SpecColumn("name", is_needed=True),
    SpecColumn("type", "choice", choices=_TYPES, default=TEXT_TYPE),
    SpecColumn("value"),
)
_SCRIPTS = ("variables", "environmentVariables", "varFileContent", "backendConfig")
_IDENTIFIER = (
    "Identifies what is provisioned. Plan, apply, rollback and destroy with the same identifier belong "
    "together within an environment and infrastructure."
)
_FILES = (
    "The configuration: several files or folders. It must name a backend other than local, for no delegate "
    "keeps a state."
)
_FOLDER = "The folder of these files to run in. If empty, it is the topmost folder with a configuration."
_VARIABLES = (
    "The variables of the configuration. For the type Secret, enter its identifier, such as account.token."
)
_ENVIRONMENT = "What the program and its providers find in their environment, such as credentials."
_VAR_FILE = "The text of a variable file: name = value in each line. No secrets: they go among variables."
_VAR_FILES = "Variable files among the files of the configuration, such as env/dev.tfvars."
_BACKEND = 'Settings of the backend: name = "value" in each line. No secrets: they go into the environment.'
STARTER_SPEC = {
    "provisionerIdentifier": "infrastructure",
    "configFiles": {
        "type": "Inline",
        "spec": {
            "content": 'terraform {\n  backend "s3" {}\n}\n\nvariable "name" {}\n\n'
            'output "cluster_name" {\n  value = var.name\n}\n'
        },
    },
    "variables": [
        {"name": "name", "type": TEXT_TYPE, "value": "<+env.identifier>-<+infra.identifier>-cluster"}
    ],
    "backendConfig": (
        'bucket = "my-states"\nkey    = "<+env.identifier>/<+infra.identifier>"\nregion = "eu-west-1"\n'
    ),
}


_INLINE_SOURCE: tuple[str, ...] = (INLINE,)


@dataclass(frozen=True)
class _TerraformSpec:
    """Settings common to the steps: identifier and configuration."""

    # Without annotations, so that they are not fields of a step.
    type = ""
    configuration_sources = _INLINE_SOURCE

    provisionerIdentifier: str = field(metadata=describe_field(_IDENTIFIER))
    configFiles: dict[str, Any] = field(default_factory=dict, metadata=describe_field(_FILES))
    folderPath: str = field(default="", metadata=describe_field(_FOLDER))
    workspace: str = field(
        default="", metadata=describe_field("Made where it is not there yet.", is_rare=True)
    )
    variables: list[dict[str, Any]] = field(
        default_factory=list, metadata=describe_field(_VARIABLES, columns=_VARIABLE)
    )
    varFiles: list[str] = field(default_factory=list, metadata=describe_field(_VAR_FILES, is_rare=True))
    varFileContent: str = field(default="", metadata=describe_field(_VAR_FILE, is_rare=True))
    backendConfig: str = field(default="", metadata=describe_field(_BACKEND))
    environmentVariables: list[dict[str, Any]] = field(
        default_factory=list, metadata=describe_field(_ENVIRONMENT, columns=_VARIABLE)
    )
    targets: list[str] = field(
        default_factory=list,
        metadata=describe_field("Only these resources, such as aws_ecs_cluster.main.", is_rare=True),
    )

    def __post_init__(self) -> None:
        """Raise `BadStepError` for an invalid spec."""
        if problem := next(self._list_problems(), ""):
            raise BadStepError(f"{self.type}: {problem}")

    @property
    def configuration_source(self) -> str:
        """Return the source of the configuration."""
        return INLINE

    def _list_problems(self) -> Iterator[str]:
        source = self.configuration_source
        if not 0 < len(self.provisionerIdentifier) <= NAME_CHARACTERS:
            yield f"provisionerIdentifier has 1 to {NAME_CHARACTERS}"
        if source not in self.configuration_sources and not has_expression(self.configuration_source):
            yield f"configuration is one of {', '.join(self.configuration_sources)}, not {source!r}"
        if source == INLINE and not self.configFiles:
            yield "it needs configFiles under spec: a store, and the files in it"
        if source != INLINE and (
            own_fields := [name for name in _CONFIGURATION_FIELDS if getattr(self, name)]
        ):
            yield f"with {source} it takes everything from there: remove {', '.join(own_fields)}"
        yield from self._list_collection_problems()
        yield from self._list_text_problems()

    def _list_collection_problems(self) -> Iterator[str]:
        for noun, variables in (
            ("variable", self.variables),
            ("environment variable", self.environmentVariables),
        ):
            if problem := describe_variable_problem(variables, noun, _TYPES):
                yield problem
        for name in ("targets", "varFiles"):
            texts = getattr(self, name)
            if not all(isinstance(text, str) and text and not text.startswith("-") for text in texts):
                yield f"{name} is a list of texts, none of which begins with a dash"

    def _list_text_problems(self) -> Iterator[str]:
        for name in ("varFileContent", "backendConfig"):
            if find_secret_references(getattr(self, name)):
                yield f"{name} is written into a file: give secrets as variables, or in environmentVariables"
            if len(getattr(self, name).encode()) > SPEC_BYTES:
                yield f"{name} is larger than {SPEC_BYTES}"

    @property
    def secret_references(self) -> tuple[str, ...]:
        """Return the secrets that the program receives."""
        variables = [*self.variables, *self.environmentVariables]
        own = [
            str(variable.get("value", "")) for variable in variables if variable.get("type") == SECRET_TYPE
        ]
        return tuple(
            dict.fromkeys(
                [*own, *find_secret_references(*(str(variable.get("value", "")) for variable in variables))]
            )
        )

    def build_settings(self) -> dict[str, Any]:
        """Return the settings that the action stores."""
        return asdict(
            TerraformSettings(
                self.folderPath,
                self.workspace,
                normalize_variables(self.variables, TEXT_TYPE),
                normalize_variables(self.environmentVariables, TEXT_TYPE),
                self.varFiles,
                self.varFileContent,
                self.backendConfig,
                self.targets,
            )
        )


_CONFIGURATION_FIELDS = tuple(
    name for name in _TerraformSpec.__dataclass_fields__ if name != "provisionerIdentifier"
)


_PLAN_OUTPUTS = {
    "add": "How many resources the plan adds.",
    "change": "How many it changes.",
    "destroy": "How many it destroys.",
    "import": "How many it imports.",
    "hasChanges": "Whether it does anything.",
    "humanReadablePlan": "The plan as people read it.",
}
_DESTROY_OUTPUTS = {"destroyed": "How many resources were destroyed."}


def _register_steps(program: str) -> None:
    """Register the four steps of one program."""
    title = TITLES[program]
    name = title

    @dataclass(frozen=True)
    class PlanSpec(_TerraformSpec):
        """Settings of a plan, to apply or to destroy the configuration."""

        type = f"{name}Plan"
        command: str = field(
            default="Apply", metadata=describe_field("What the plan is for.", "Apply", "Destroy")
        )

    @dataclass(frozen=True)
    class ApplySpec(_TerraformSpec):
        """Settings of an apply, of a configuration or of an earlier step's plan."""

        type = f"{name}Apply"
        configuration_sources = (INLINE, FROM_PLAN)
        configuration: str = field(
            default=INLINE,
            metadata=describe_field(
                "InheritFromPlan applies what was planned, and approved, before.", INLINE, FROM_PLAN
            ),
        )

        @property
        def configuration_source(self) -> str:
            return self.configuration

    @dataclass(frozen=True)
    class DestroySpec(_TerraformSpec):
        """Settings of a destroy, by a configuration, a plan, or the latest apply."""

        type = f"{name}Destroy"
        configuration_sources = (INLINE, FROM_PLAN, FROM_APPLY)
        configuration: str = field(
            default=INLINE,
            metadata=describe_field(
                "InheritFromApply takes what was applied last, InheritFromPlan a plan to destroy.",
                INLINE,
                FROM_PLAN,
                FROM_APPLY,
            ),
        )

        @property
        def configuration_source(self) -> str:
            return self.configuration

    common_fields: dict[str, Any] = {
        "manifests": {"configFiles": TERRAFORM_CONFIGURATION},
        "scripts": _SCRIPTS,
        "secrets": ("variables.*.value", "environmentVariables.*.value"),
        "runs_on_delegates": True,
    }

    @step(
        f"{name}Plan",
        title=f"{title} Plan",
        spec=PlanSpec,
        starter=STARTER_SPEC,
        outputs=_PLAN_OUTPUTS,
        deploys=False,
        **common_fields,
    )
    def plan(spec: PlanSpec) -> Plan:
        """Show what an apply would do, and keep the plan for a step that applies it."""
        destroys = spec.command == "Destroy"
        yield unit(
            "Plan",
            PlanTerraform(
                spec.provisionerIdentifier, program, INLINE, spec.build_settings(), destroys=destroys
            ),
        )

    @step(
        f"{name}Apply",
        title=f"{title} Apply",
        spec=ApplySpec,
        starter=STARTER_SPEC,
        undone_by=f"{name}Rollback",
        provisions=True,
        **common_fields,
    )
    def apply(spec: ApplySpec) -> Plan:
        """Make the infrastructure as the configuration says; its outputs are those of the step."""
        yield unit(
            "Apply",
            ApplyTerraform(spec.provisionerIdentifier, program, spec.configuration, spec.build_settings()),
        )

    @step(
        f"{name}Destroy",
        title=f"{title} Destroy",
        spec=DestroySpec,
        starter=STARTER_SPEC,
        outputs=_DESTROY_OUTPUTS,
        **common_fields,
    )
    def destroy(spec: DestroySpec) -> Plan:
        """Destroy all that the configuration has made."""
        yield unit(
            "Destroy",
            DestroyTerraform(spec.provisionerIdentifier, program, spec.configuration, spec.build_settings()),
        )

    @step(
        f"{name}Rollback",
        title=f"{title} Rollback",
        spec=TerraformRollbackSpec,
        undoes=(f"{name}Apply",),
        runs_on_delegates=True,
    )
    def rollback(spec: TerraformRollbackSpec) -> Plan:
        """Apply what was applied before, or destroy what was made where there was nothing."""
        yield from ()


@dataclass(frozen=True)
class TerraformRollbackSpec:
    """Settings of the rollback of the stage's applies with the same program, newest first."""

    provisionerIdentifier: str = field(
        default="",
        metadata=describe_field(
            "Only what was applied under this name; without it every apply.", is_rare=True
        ),
    )


for _program in (TERRAFORM, TERRAGRUNT):
    _register_steps(_program)
