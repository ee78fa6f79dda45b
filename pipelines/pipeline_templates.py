"""Templates of new pipelines, one per strategy."""

import re
from collections.abc import Mapping
from typing import Any

import yaml

from steps.kinds.registry import get_step_kind
from steps.strategies.registry import get_strategies

_WORD_BOUNDARY = re.compile(r"(?=[A-Z])")


def render_pipeline_template(
    strategy: str,
    *,
    service: str,
    environment: str,
    infrastructure: str,
    title: str,
    identifier: str = "",
    is_dynamic: bool = False,
) -> str:
    """Render a pipeline with one stage that deploys a service by a strategy, with its steps written out.

    Without `identifier`, it is that of the service after "deploy_"; a number after that is in the name too.
    For a dynamic infrastructure it includes a provisioner: a script to adapt.
    """
    filling = get_strategies()[strategy]()
    stage = {
        "identifier": f"deploy_to_{environment}",
        "name": f"Deploy to {environment}",
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
                "rollbackSteps": [_add_example_values(step) for step in filling.rollback_steps],
            },
        },
    }
    usual = f"deploy_{service}"
    number = identifier.removeprefix(f"{usual}_") if identifier.startswith(f"{usual}_") else ""
    name = f"Deploy {title} {number}".rstrip()
    pipeline = {"identifier": identifier or usual, "name": name, "stages": [{"stage": stage}]}
    return yaml.dump(
        {"pipeline": pipeline},
        Dumper=_IndentedDumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
    )


def _build_script_provisioner() -> dict[str, Any]:
    """Build an example script provisioner that creates a cluster."""
    kind = get_step_kind("ShellScriptProvision")
    step = {"type": kind.type, "identifier": "provision", "name": kind.title, "spec": dict(kind.starter)}
    return {"step": step}


def _add_example_values(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the step with a placeholder for each required field."""
    step = document["step"]
    spec = {
        name: f"my-{_WORD_BOUNDARY.sub('-', name).lower()}"
        for name in get_step_kind(step["type"]).required_fields
    }
    return {"step": {**step, "spec": spec} if spec else {**step}}


class _IndentedDumper(yaml.SafeDumper):
    """YAML dumper that indents lists and writes no anchors."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Indent lists too."""
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: object) -> bool:
        """Return True: pipelines may not contain references."""
        return True
