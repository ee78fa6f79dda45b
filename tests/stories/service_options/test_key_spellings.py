"""Manifests as other tools and AWS's own pages write them are deployed as they are."""

import pytest

from connectors.models import FileNode
from tests.fixtures.engine_driver import Drive

pytestmark = pytest.mark.django_db(transaction=True)

TASK_FILE = "/ECS Tutorial/RegisterTaskDefinitionRequest.yaml"
_SPELLINGS = {
    "cpu: '256'": "cpu: .25 vCPU",
    "memory: '512'": 'memory: 512\npidMode: ""',
    "    environment: []": "    environment: &env\n      - {name: PORT, value: 0080}",
    "placementConstraints: []": "  - name: helper\n    image: busybox\n    environment: *env",
}


def test_a_task_definition_in_the_spelling_of_other_tools_is_deployed(drive: Drive) -> None:
    node = FileNode.objects.get(path=TASK_FILE)
    for spelling, other_spelling in _SPELLINGS.items():
        assert spelling in node.content
        node.content = node.content.replace(spelling, other_spelling)
    node.save()
    execution = drive.run("1.27")
    assert execution.outcome == "COMPLETED", execution.failure
    (call,) = [entry for entry in drive.calls(execution) if entry.operation == "RegisterTaskDefinition"]
    parameters = call.parsed_parameters
    assert (parameters["cpu"], parameters["memory"]) == (".25 vCPU", "512")
    assert "pidMode" not in parameters
    environments = [container["environment"] for container in parameters["containerDefinitions"]]
    assert environments == [[{"name": "PORT", "value": "0080"}]] * 2
    assert any("memory: the number is sent as text" in line for line in drive.log(execution))
