"""The regions that AWS has, from botocore's own data: no call, no credentials."""

from dataclasses import dataclass
from functools import cache

import botocore.session


@dataclass(frozen=True)
class Region:
    """A region's name and what people call it."""

    name: str
    title: str


@cache
def regions(service: str = "ecs") -> tuple[Region, ...]:
    """Every region where a service is offered, the public partition first."""
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
