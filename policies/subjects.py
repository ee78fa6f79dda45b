"""Documents of the subjects of policy rules: their names, each with an example."""

from collections.abc import Mapping
from typing import Any, Final

from policies.models import PolicyRule

Document = Mapping[str, Any]

_STAGE: Final = {
    "identifier": "deploy",
    "name": "Deploy",
    "service": {"identifier": "shop", "name": "Shop"},
    "environment": {"identifier": "live", "name": "Live", "kind": "Production"},
    "infrastructure": {
        "identifier": "main",
        "name": "Main",
        "connector": "aws",
        "region": "eu-central-1",
        "cluster": "live",
    },
    # All steps of the stage, in order.
    "steps": [
        {"identifier": "approve", "name": "Approve", "type": "HarnessApproval", "is_conditional": False}
    ],
    # Approval steps that come before the first deploying step of the stage, also in earlier stages. None of
    # those that a stage or a step does not need because it also runs after a failure.
    "approvals": [
        {
            "step": "approve",
            "groups": ["release_managers"],
            "minimum": 2,
            "excludes_executor": True,
            "is_conditional": False,
        }
    ],
}
_PIPELINE: Final = {"identifier": "shop", "name": "Shop", "scope": "account/acme/shop"}

EXAMPLES: Final[Mapping[str, Document]] = {
    PolicyRule.Subject.PIPELINE: {
        "pipeline": {
            **_PIPELINE,
            "variables": [{"name": "replicas", "type": "Number", "is_runtime_input": True}],
        },
        "stages": [_STAGE],
    },
    PolicyRule.Subject.MANIFEST: {
        "kind": "EcsTaskDefinition",
        "manifest": {
            "family": "shop",
            "containerDefinitions": [{"name": "web", "image": "example.com/shop:1.4.2", "memory": 512}],
        },
        "service": {"identifier": "shop", "name": "Shop", "scope": "account/acme/shop"},
        # All three are empty where a service is saved: its manifests apply to all environments.
        "environment": {"identifier": "live", "name": "Live", "kind": "Production"},
    },
    PolicyRule.Subject.RUN: {
        "pipeline": {**_PIPELINE, "version": 7},
        # A digest that was not chosen is empty until the run resolves it; so is a tag that a pattern chooses.
        "artifact": {"image": "example.com/shop", "tag": "1.4.2", "digest": ""},
        # Without secrets.
        "inputs": {"replicas": 3},
        "started_by": {"name": "ada", "is_service_account": False},
        # Trigger and event that started it; empty for a run that somebody started.
        "cause": "",
        "attempt": 1,
        "is_rollback": False,
        # Windows that are active now; a run is refused unless they are overridden.
        "freezes": [{"identifier": "holidays", "name": "Holidays", "is_overridden": True}],
        "stages": [_STAGE],
    },
}
# Values of these names have keys that depend on the resource.
OPEN_NAMES: Final = ("manifest", "inputs")
