"""The IAM actions that a plan names are those that CloudFormation needs for the resources of the stack."""

import json
from pathlib import Path

import cfnlint  # type: ignore[import-untyped]
import pytest

from deployments.delegate_installs.operations import CREATING_ACTIONS
from deployments.delegate_installs.removal import REMOVING_ACTIONS

SCHEMAS = Path(cfnlint.__file__).parent / "data" / "schemas" / "resources"
TYPES = ("AWS::IAM::Role", "AWS::Logs::LogGroup", "AWS::SecretsManager::Secret")
# Parts of these types that no stack of a delegate has.
UNUSED = (
    "BearerToken",
    "DataProtection",
    "DeliveryStream",
    "IndexPolic",
    "LogDelivery",
    "PUT.OBJECT",
    "RandomPassword",
    "Replicat",
    "ResourcePolic",
    "Untag",
)


@pytest.fixture(scope="module")
def handlers() -> dict[str, dict[str, set[str]]]:
    """Return the actions of each handler of CloudFormation by type."""
    schemas = (json.loads(path.read_text()) for path in SCHEMAS.glob("*.json"))
    return {
        schema["typeName"]: {name: set(row["permissions"]) for name, row in schema["handlers"].items()}
        for schema in schemas
        if schema.get("typeName") in TYPES and "handlers" in schema
    }


def list_needed(handlers: dict[str, dict[str, set[str]]], operation: str) -> set[str]:
    actions = set().union(*(rows[operation] for rows in handlers.values()))
    return {action for action in actions if not any(part in action for part in UNUSED)}


def test_a_deployment_names_every_action_that_creates_the_stack_or_takes_it_back(
    handlers: dict[str, dict[str, set[str]]],
) -> None:
    assert set(handlers) == set(TYPES)
    needed = list_needed(handlers, "create") | list_needed(handlers, "delete")
    assert needed - set(CREATING_ACTIONS) == set()


def test_a_removal_names_every_action_that_deletes_the_stack(
    handlers: dict[str, dict[str, set[str]]],
) -> None:
    # A deletion tags nothing, although the schema names it.
    assert list_needed(handlers, "delete") - {"iam:TagRole"} - set(REMOVING_ACTIONS) == set()
