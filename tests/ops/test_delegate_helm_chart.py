"""The Helm chart of a delegate renders to the manifest of the wizard.

Its templates only insert values, so that a few lines render them as Helm does; any other construct fails.
"""

import json
import re
from pathlib import Path
from typing import Any

import yaml

from delegates.agent import VERSION
from delegates.install import write_spec
from delegates.install.kubernetes import HELM_VALUES_FILE, NAMESPACE, build_manifests
from delegates.install.plan import SpecPlan
from delegates.install.specs import SpecRequest
from tests.delegates.install.spec_variants import BASE, build_request

CHART = Path(__file__).resolve().parents[2] / "deploy/delegate/helm"
EXPRESSION = re.compile(r"{{ (?:\.Values\.(\w+)|\.Release\.Namespace)((?: \| \w+)*) }}")
FILTERS = {"quote": lambda value: json.dumps(str(value)), "toJson": json.dumps, "trim": str.strip}


def build_full_request() -> SpecRequest:
    return build_request(
        kind="KUBERNETES", stop_seconds=90, cpu=512, memory_mib=4096, desired_count=3, task_role="delegate"
    )


def render_chart(values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the objects of the chart by kind."""

    def insert(match: re.Match[str]) -> str:
        value = values[match[1]] if match[1] else NAMESPACE
        for name in match[2].replace("|", "").split():
            value = FILTERS[name](value)
        return str(value)

    objects = {}
    for template in sorted((CHART / "templates").iterdir()):
        text = EXPRESSION.sub(insert, template.read_text())
        assert "{{" not in text, template.name
        document = yaml.safe_load(text)
        objects[document["kind"]] = document
    return objects


def test_the_chart_renders_to_the_manifest_of_the_wizard() -> None:
    request = build_full_request()
    generated = yaml.safe_load(write_spec(request).files[HELM_VALUES_FILE])
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    assert set(generated) == set(defaults) - {"token"}
    rendered = render_chart(defaults | generated | {"token": f"{BASE.token}\n"})
    manifests = {document["kind"]: document for document in build_manifests(SpecPlan(request))}
    del manifests["Namespace"]
    assert rendered == manifests


def test_the_values_of_the_wizard_hold_no_token() -> None:
    assert BASE.token not in write_spec(build_full_request()).files[HELM_VALUES_FILE]


def test_the_chart_has_the_version_of_the_agent() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (VERSION, VERSION)
