"""Each member of RegisterTaskDefinition that botocore knows is registered, read back and compared."""

import copy
import json

import pytest

from aws.apis.ecs import EcsClient
from aws.caller import BotoCaller
from aws.clients import AccessKey
from catalog.manifests.checks import check_manifest
from catalog.manifests.documents import parse_document
from catalog.manifests.kinds import TASK_DEFINITION
from inventory.drift.documents.differences import ServiceDocuments, find_differences, list_paths
from sandbox.process import SandboxProcess
from tests.aws.fake_caller import skip_sleep
from tests.sandbox.field_examples import FieldExample, build_examples, select_members
from tests.sandbox.task_definition_fields import TASK_DEFINITION_FIELDS

EXAMPLES = tuple(build_examples(TASK_DEFINITION_FIELDS))


@pytest.fixture(scope="module")
def ecs(sandbox_process: SandboxProcess) -> EcsClient:
    sandbox_process.clear_faults()
    sandbox_process.reset()
    key = AccessKey("AKIATEST", "secret")
    return EcsClient(BotoCaller(key, "us-east-1", sandbox_process.url, sleep=skip_sleep))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_a_field_reaches_the_task_definition_without_drift(ecs: EcsClient, example: FieldExample) -> None:
    document = parse_document(json.dumps(copy.deepcopy(dict(example.definition))), "task.yaml")
    checked = check_manifest(TASK_DEFINITION, document)
    assert [str(problem) for problem in checked.problems] == []
    registered = ecs.register_task_definition(checked.value)
    tags = [{"key": key, "value": value} for key, value in registered.tags.items()]
    raw = {**registered.raw, "tags": tags}
    assert select_members(raw, example.paths) == select_members(checked.value, example.paths)
    desired, actual = ServiceDocuments(checked.value), ServiceDocuments(raw)
    assert list_paths(find_differences(desired, actual, aws_defaults={})) == []
