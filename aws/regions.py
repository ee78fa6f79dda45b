"""AWS regions and service endpoints from botocore's own data."""

from dataclasses import dataclass
from functools import cache

import botocore.session
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import BotoCoreError


@dataclass(frozen=True)
class Region:
    """Region with its display name."""

    name: str
    title: str


@cache
def list_regions(service: str = "ecs") -> tuple[Region, ...]:
    """Return every region where a service is offered, the public partition first."""
    session = botocore.session.get_session()
    titles = {
        name: region.get("description", name)
        for partition in session.get_data("endpoints")["partitions"]
        for name, region in partition["regions"].items()
    }
    return tuple(
        Region(name, titles.get(name, name))
        for partition in session.get_available_partitions()
        for name in session.get_available_regions(service, partition)
    )


def get_service_endpoint(service: str, region: str, endpoint_url: str | None = None) -> str:
    """Return the endpoint URL of a service in a region, such as https://ecs.eu-central-1.amazonaws.com."""
    return endpoint_url or _resolve_endpoint(service, region)


@cache
def _resolve_endpoint(service: str, region: str) -> str:
    # Only a client knows the host: that of elbv2 begins with "elasticloadbalancing". It sends nothing here.
    config = Config(signature_version=UNSIGNED)
    try:
        client = botocore.session.get_session().create_client(service, region_name=region, config=config)
    except (BotoCoreError, ValueError):
        # No region, or one that is not known yet: there is no host to reach.
        return f"https://{service}.{region}.amazonaws.com"
    return str(client.meta.endpoint_url)
