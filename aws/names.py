"""What AWS calls things: IAM actions, and which operations only read."""

# IAM's prefix where it differs from the name boto3 uses.
_IAM_PREFIXES = {"elbv2": "elasticloadbalancing"}

_READ_VERBS = ("Describe", "List", "Get", "BatchGet", "BatchCheck", "Filter", "Lookup", "Search", "Head")

# Reads by effect whose names do not say so.
_READS = {
    ("sts", "AssumeRole"),
    ("sts", "DecodeAuthorizationMessage"),
    ("iam", "SimulatePrincipalPolicy"),
}


def iam_action(service: str, operation: str) -> str:
    """The IAM action that allows an operation, such as `ecs:UpdateService`."""
    return f"{_IAM_PREFIXES.get(service, service)}:{operation}"


def is_write(service: str, operation: str) -> bool:
    """Whether an operation may change something; an unknown one may."""
    return (service, operation) not in _READS and not operation.startswith(_READ_VERBS)
