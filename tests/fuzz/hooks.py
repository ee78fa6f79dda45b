"""What schemathesis loads beside the description: nobody takes away from itself what it asks with."""

import os
from typing import Any

import schemathesis

from tests.fuzz.exceptions import is_expected

# One address a line: the asker's account, role and key, and the organization where everything hangs.
KEPT = frozenset(os.environ.get("SLIPWAY_FUZZ_KEPT", "").split())
_NOBODY = 2_000_000_000


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: dict[str, Any]) -> None:
    """Let a change of what is kept mean another one, which does not exist."""
    if case.method.upper() != "GET" and case.formatted_path in KEPT:
        name = sorted(case.path_parameters)[0]
        case.path_parameters[name] = _NOBODY


@schemathesis.hook
def filter_failure(context: Any, failure: Any, case: Any, response: Any) -> bool:
    """Keep the failures."""
    name, status = type(failure).__name__, response.status_code
    return not is_expected(case.operation.label, name, status, query=dict(case.query or {}), body=case.body)
