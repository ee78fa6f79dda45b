"""Templates of new pipelines: one per strategy, and one of an ECS task that ends by itself."""

import re
from collections.abc import Mapping
from typing import Any, Final

import yaml

from catalog.forms.sample_manifests import SAMPLE_RUN_TASK_DEFINITION, SAMPLE_RUN_TASK_REQUEST
from catalog.manifests.stores import INLINE
from steps.kinds.registry import get_step_kind
from steps.strategies.registry import (
    StepDocument,
    StrategySteps,
    build_step_document,
    get_strategies,
    list_strategy_titles,
)

RUN_TASK: Final = "RunTask"
_WORD_BOUNDARY = re.compile(r"(?=[A-Z])")


def list_template_titles() -> list[tuple[str, str]]:
    """Return the names of all templates with their titles on pages."""
    return [*list_strategy_titles(), (RUN_TASK, "Run task")]


def get_usual_identifier(template: str, service: str) -> str:
    """Return the identifier of the first pipeline of a service from a template."""
    return f"run_{service}" if template == RUN_TASK else f"deploy_{service}"


def render_pipeline_template(
    template: str,
    *,
    service: str,
    environment: str,
    infrastructure: str,
    title: str,
    identifier: str = "",
    is_dynamic: bool = False,
) -> str:
    """Render a pipeline with one stage that deploys a service, or runs its task, with its steps written out.

    Without `identifier`, it is the usual one; a number after that is in the name too.
    For a dynamic infrastructure it includes a provisioner: a script to adapt.
    """
    filling = _get_steps(template)
    verb, where, what = ("Run", "in", "Run a task of") if template == RUN_TASK else ("Deploy", "to", "Deploy")
    stage = {
        "identifier": f"{verb.lower()}_{where}_{environment}",
        "name": f"{verb} {where} {environment}",
        "type": "Deployment",
        "spec": {
            "deploymentType": "ECS",
            "service": {"serviceRef": service},
            "environment": {
                "environmentRef": environment,
                "infrastructureDefinitions": [{"identifier": infrastructure}],
                **({"provisioner": {"steps": [_build_script_provisioner()]}} if is_dynamic else {}),
            },
            "execution": {
                "steps": [_add_example_values(step) for step in filling.steps],
                **(
                    {"rollbackSteps": [_add_example_values(step) for step in filling.rollback_steps]}
                    if filling.rollback_steps
                    else {}
                ),
            },
        },
    }
    usual = get_usual_identifier(template, service)
    number = identifier.removeprefix(f"{usual}_") if identifier.startswith(f"{usual}_") else ""
    name = f"{what} {title} {number}".rstrip()
    pipeline = {"identifier": identifier or usual, "name": name, "stages": [{"stage": stage}]}
    return yaml.dump(
        {"pipeline": pipeline},
        Dumper=_IndentedDumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
    )


def _get_steps(template: str) -> StrategySteps:
    if template == RUN_TASK:
        step = build_step_document(
            "EcsRunTask",
            "ecsRunTask",
            "ECS Run Task",
            taskDefinition=_build_inline_source(SAMPLE_RUN_TASK_DEFINITION),
            runTaskRequestDefinition=_build_inline_source(SAMPLE_RUN_TASK_REQUEST),
        )
        return StrategySteps((step,), ())
    return get_strategies()[template]()


def _build_inline_source(content: str) -> dict[str, Any]:
    return {"type": INLINE, "spec": {"content": content}}


def _build_script_provisioner() -> StepDocument:
    """Build an example script provisioner that creates a cluster."""
    kind = get_step_kind("ShellScriptProvision")
    return build_step_document(kind.type, "provision", kind.title, **kind.starter)


def _add_example_values(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the step with a placeholder for each required field."""
    step = document["step"]
    examples = {
        name: f"my-{_WORD_BOUNDARY.sub('-', name).lower()}"
        for name in get_step_kind(step["type"]).required_fields
    }
    spec = step.get("spec", examples)
    return {"step": {**step, "spec": spec} if spec else {**step}}


class _IndentedDumper(yaml.SafeDumper):
    """YAML dumper that indents lists, writes no anchors, and keeps the lines of a text."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Indent lists too."""
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: object) -> bool:
        """Return True: pipelines may not contain references."""
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_IndentedDumper.add_representer(str, _represent_text)
