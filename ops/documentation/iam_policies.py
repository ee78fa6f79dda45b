"""Reference page of the IAM policies that a connector's principal needs."""

import json
from collections.abc import Iterator

from aws.policies import POLICIES
from ops.documentation.markdown import Page, block, code, plain, table


def generate() -> Iterator[Page]:
    """Yield the page of IAM policies."""
    yield Page("reference/iam-policies.md", "IAM policies", tuple(_build_parts()))


def _build_parts() -> Iterator[str]:
    yield (
        "Attach the first policy to the principal of every AWS connector, and each further policy where you "
        "use its feature. The page *IAM policies* of a connector offers the same policies for download, and "
        "a [preview](../how-to/preview-runs.md) lists the actions that one run needs."
    )
    for policy in POLICIES:
        yield f"## {policy.title}"
        yield plain(policy.description)
        rows = [(code(action), plain(purpose)) for action, purpose in policy.action_purposes.items()]
        yield table(("Action", "Purpose"), rows)
        yield block(json.dumps(policy.document, indent=2), "json")
