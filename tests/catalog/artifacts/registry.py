"""A container registry on loopback: paged tags and digests behind tokens, by the OCI distribution API."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.delegates.agent.fake_servers import start_http_server
from tests.fixtures.git import PASSWORD, USERNAME
from tests.secret_watch.marker import planted

LOGIN = "Basic " + base64.b64encode(f"{USERNAME}:{PASSWORD}".encode()).decode()
TOKEN, PAGE = planted("token-of-the-registry"), 2


@dataclass
class Registry:
    """`tags` are those of shop/web, each with its digest; `page` of them are listed at once.

    Without `repositories` it shows no catalog.

    `status` is answered instead of a list of tags; `list_requests` counts how often a list is begun.
    """

    url: str = ""
    page: int = PAGE
    status: int = 200
    list_requests: int = 0
    tags: dict[str, str] = field(default_factory=dict)
    repositories: tuple[str, ...] = ()

    def respond(self, request: Any) -> tuple[int, dict[str, str], bytes]:
        """Return the response of the registry."""
        parts = urlsplit(request.path)
        authorization = request.headers.get("Authorization", "")
        if parts.path == "/token":
            return (
                (200, {}, json.dumps({"token": TOKEN}).encode()) if authorization == LOGIN else (401, {}, b"")
            )
        if authorization != f"Bearer {TOKEN}":
            return 401, {"WWW-Authenticate": f'Bearer realm="{self.url}/token",service="loopback"'}, b""
        if parts.path == "/v2/_catalog" and self.repositories:
            return self._list_repositories(parse_qs(parts.query).get("last", [""])[0])
        if parts.path == "/v2/shop/web/tags/list":
            return self._list_tags(parse_qs(parts.query).get("last", [""])[0])
        tag = parts.path.removeprefix("/v2/shop/web/manifests/")
        if tag in self.tags:
            return 200, {"Docker-Content-Digest": self.tags[tag]}, b""
        return (200 if parts.path == "/v2/" else 404), {}, b""

    def _list_repositories(self, last_name: str) -> tuple[int, dict[str, str], bytes]:
        remaining_names = [name for name in sorted(self.repositories) if name > last_name]
        page = remaining_names[: self.page]
        link = (
            {"Link": f'</v2/_catalog?last={page[-1]}>; rel="next"'}
            if len(remaining_names) > self.page
            else {}
        )
        return 200, link, json.dumps({"repositories": page}).encode()

    def _list_tags(self, last_tag: str) -> tuple[int, dict[str, str], bytes]:
        self.list_requests += not last_tag
        if self.status != 200:
            return self.status, {}, b"{}"
        remaining_tags = [tag for tag in sorted(self.tags) if tag > last_tag]
        page = remaining_tags[: self.page]
        is_more = len(remaining_tags) > self.page
        link = {"Link": f'</v2/shop/web/tags/list?last={page[-1]}>; rel="next"'} if is_more else {}
        return 200, link, json.dumps({"tags": page}).encode()


@contextmanager
def start_registry(**tags: str) -> Iterator[Registry]:
    """Start a registry, and yield it."""
    registry_server = Registry(tags={tag.replace("_", "."): digest for tag, digest in tags.items()})
    with start_http_server(registry_server.respond) as url:
        registry_server.url = url
        yield registry_server
