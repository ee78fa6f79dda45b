"""Where the calls of a service go, from botocore's own data: no call, no credentials."""

from functools import cache

import botocore.session


def endpoint_of_service(service: str, region: str, endpoint_url: str | None = None) -> str:
    """The URL that calls to a service in a region go to, such as https://ecs.eu-central-1.amazonaws.com."""
    return endpoint_url or _known(service, region)


@cache
def _known(service: str, region: str) -> str:
    resolver = botocore.session.get_session().get_component("endpoint_resolver")
    found = resolver.construct_endpoint(service, region) or {}
    return f"https://{found.get('hostname') or f'{service}.{region}.amazonaws.com'}"
