"""What a delegate's container finds in its environment, in the documents' order (R097, R104, R109, R132)."""

from delegates.specs.plan import Plan
from delegates.specs.request import Proxy

# What a task asks for its role and for itself; no proxy answers there.
ADDRESSES_OF_ECS = ("169.254.169.254", "169.254.170.2")

Variable = tuple[str, str]

_LEGACY_ORDER = {
    "EC2": (
        "ACCOUNT_ID",
        "DELEGATE_TOKEN",
        "DELEGATE_TYPE",
        "INIT_SCRIPT",
        "DEPLOY_MODE",
        "MANAGER_HOST_AND_PORT",
        "DELEGATE_NAME",
        "LOG_STREAMING_SERVICE_URL",
        "DELEGATE_TAGS",
        "NEXT_GEN",
    ),
    "FARGATE": (
        "ACCOUNT_ID",
        "DELEGATE_TOKEN",
        "DELEGATE_TYPE",
        "LOG_STREAMING_SERVICE_URL",
        "DELEGATE_TAGS",
        "INIT_SCRIPT",
        "DEPLOY_MODE",
        "MANAGER_HOST_AND_PORT",
        "DELEGATE_NAME",
        "NEXT_GEN",
    ),
}


def token_variable(plan: Plan) -> str:
    """The variable that holds the token."""
    return "DELEGATE_TOKEN" if plan.request.flavour == "legacy" else "HARNESS_TOKEN"


def variables(plan: Plan) -> list[Variable]:
    """Every variable in order; the token is left out where it comes from a secret."""
    listed = _legacy(plan) if plan.request.flavour == "legacy" else _v3(plan)
    if plan.request.uses_secret:
        listed = [one for one in listed if one[0] != token_variable(plan)]
    if plan.request.proxy:
        listed += _proxy(plan.request.proxy, is_on_ecs=plan.request.kind == "ECS")
    if plan.request.ca:
        listed.append(("SLIPWAY_CA_BUNDLE", plan.request.ca.path))
    return listed


def log_address(manager_url: str) -> str:
    """Where logs are sent, as the legacy variable says it (R100)."""
    return f"{manager_url.rstrip('/')}/log-service/"


def _legacy(plan: Plan) -> list[Variable]:
    request = plan.request
    values = {
        "ACCOUNT_ID": request.account_id,
        "DELEGATE_TOKEN": plan.token,
        "DELEGATE_TYPE": "DOCKER",
        "INIT_SCRIPT": "",
        "DEPLOY_MODE": "KUBERNETES",
        "MANAGER_HOST_AND_PORT": request.manager_url,
        "DELEGATE_NAME": plan.name,
        "LOG_STREAMING_SERVICE_URL": log_address(request.manager_url),
        "DELEGATE_TAGS": ",".join(request.tags),
        "NEXT_GEN": "true",
    }
    return [(name, values[name]) for name in _LEGACY_ORDER[request.launch_type]]


def _v3(plan: Plan) -> list[Variable]:
    request = plan.request
    listed = [
        ("HARNESS_ACCOUNT_ID", request.account_id),
        ("HARNESS_TOKEN", plan.token),
        ("HARNESS_URL", request.manager_url),
        ("HARNESS_NAME", plan.name),
    ]
    return [*listed, ("HARNESS_TAGS", ",".join(request.tags))] if request.tags else listed


def _proxy(proxy: Proxy, *, is_on_ecs: bool) -> list[Variable]:
    listed = [("PROXY_HOST", proxy.host), ("PROXY_PORT", str(proxy.port)), ("PROXY_SCHEME", proxy.scheme)]
    if proxy.user:
        listed += [("PROXY_USER", proxy.user), ("PROXY_PASSWORD", proxy.password)]
    direct = [*proxy.no_proxy, *(ADDRESSES_OF_ECS if is_on_ecs else ())]
    return [*listed, ("NO_PROXY", ",".join(dict.fromkeys(direct)))] if direct else listed
