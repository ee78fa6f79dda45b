"""Registry executor: repositories, tags, digests, ping."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote, urlencode, urljoin, urlsplit

from delegates.agent.executors.task_results import ExecutorContext, TaskResult, build_failure, build_success
from delegates.agent.tasks import HeldTask
from guards.limits import REGISTRY_TAGS
from guards.safe_http import RequestPolicy, SafeRequest, SafeResponse, send_request

MAX_PAGES = 100
_REPOSITORY = re.compile(r"[a-z0-9]+(?:[._/-]+[a-z0-9]+)*\Z")
_TAG = re.compile(r"[\w][\w.-]{0,127}\Z", re.ASCII)
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')
_HUB = ("docker.io", "index.docker.io", "registry-1.docker.io", "registry.hub.docker.com")
_MANIFESTS = ", ".join(
    f"application/vnd.{name}+json"
    for name in (
        "oci.image.index.v1",
        "oci.image.manifest.v1",
        "docker.distribution.manifest.list.v2",
        "docker.distribution.manifest.v2",
    )
)


class RegistryRefused(Exception):
    """Error raised when the registry returns an unexpected response."""


def run_docker_registry(held_task: HeldTask, around: ExecutorContext) -> TaskResult:
    """Read tags, a digest, the catalog or the API version. Raises the errors of `send_request`."""
    params = held_task.task.params
    repository, tag = str(params.get("repository") or ""), str(params.get("tag") or "")
    if params.get("catalog"):
        return _list_catalog(str(params["url"]), _parse_login(params), around.way)
    if not (repository or tag):
        return _ping(str(params["url"]), _parse_login(params), around.way)
    if not _REPOSITORY.match(repository) or (tag and not _TAG.match(tag)):
        return build_failure("BadParameters", f"{repository}:{tag} is not the name of an image")
    registry = _build_registry(str(params["url"]), repository, _parse_login(params), around.way)
    try:
        return build_success({"digest": registry.get_digest(tag)} if tag else registry.list_tags())
    except RegistryRefused as refused:
        return build_failure("RegistryRefused", str(refused))


def _parse_login(params: Mapping[str, Any]) -> tuple[str, str] | None:
    return (str(params["username"]), str(params.get("password") or "")) if params.get("username") else None


def _ping(url: str, login: tuple[str, str] | None, way: RequestPolicy) -> TaskResult:
    try:
        _build_registry(url, "", login, way).check_access()
    except RegistryRefused as refused:
        return build_failure("RegistryRefused", str(refused))
    return build_success({"ok": True})


def _list_catalog(url: str, login: tuple[str, str] | None, way: RequestPolicy) -> TaskResult:
    try:
        return build_success(
            _build_registry(url, "", login, way, scope="registry:catalog:*").list_repositories()
        )
    except RegistryRefused as refused:
        return build_failure("RegistryRefused", str(refused))


def _build_registry(
    url: str, repository: str, login: tuple[str, str] | None, way: RequestPolicy, scope: str = ""
) -> "_Registry":
    base = (url if "://" in url else f"https://{url}").rstrip("/").removesuffix("/v2")
    if urlsplit(base).hostname in _HUB:
        base = "https://registry-1.docker.io"
        repository = repository if "/" in repository or not repository else f"library/{repository}"
    return _Registry(
        base, repository, login, way, scope or f"repository:{repository}:pull" * bool(repository)
    )


@dataclass
class _Registry:
    base: str
    repository: str
    login: tuple[str, str] | None = field(repr=False)
    way: RequestPolicy
    # Scope of the requested token.
    scope: str = ""
    token: str = field(default="", repr=False)

    def check_access(self) -> None:
        """Check that the registry exists and accepts the credentials."""
        self._send_authenticated("GET", f"{self.base}/v2/")

    def list_tags(self) -> dict[str, Any]:
        tags, is_cut = self._list_pages(f"{self.base}/v2/{self.repository}/tags/list?n=1000", "tags")
        return {"tags": tags, "is_cut": is_cut}

    def list_repositories(self) -> dict[str, Any]:
        """Return the repositories of the registry's catalog; some registries have none."""
        host = urlsplit(self.base).hostname
        if host in _HUB:
            raise RegistryRefused("Docker Hub does not list repositories")
        try:
            names, is_cut = self._list_pages(f"{self.base}/v2/_catalog?n=1000", "repositories")
        except RegistryRefused as refused:
            raise RegistryRefused(f"{host} does not list its repositories: {refused}") from refused
        return {"repositories": [{"repositoryName": name} for name in names], "is_cut": is_cut}

    def _list_pages(self, url: str, member: str) -> tuple[list[str], bool]:
        """Return all pages of a list, and whether the registry has more entries than the limit."""
        entries: list[str] = []
        for _ in range(MAX_PAGES):
            reply = self._send_authenticated("GET", url)
            entries += [str(entry) for entry in _parse_json(reply).get(member) or ()]
            following = re.match(r"<([^>]+)>;\s*rel=\"?next", reply.headers.get("link", ""))
            if following is None:
                return entries[:REGISTRY_TAGS], len(entries) > REGISTRY_TAGS
            if len(entries) >= REGISTRY_TAGS:
                break
            url = self._require_same_host(urljoin(url, following[1]))
        return entries[:REGISTRY_TAGS], True

    def get_digest(self, tag: str) -> str:
        url = f"{self.base}/v2/{self.repository}/manifests/{quote(tag)}"
        digest = self._send_authenticated("HEAD", url).headers.get("docker-content-digest", "")
        if not digest:
            raise RegistryRefused(
                f"{urlsplit(self.base).hostname} returned no digest for {self.repository}:{tag}"
            )
        return digest

    def _require_same_host(self, url: str) -> str:
        """Return a URL on the same host: another host would receive this registry's token."""
        if urlsplit(url)[:2] != urlsplit(self.base)[:2]:
            raise RegistryRefused("the next page of the list is on another host")
        return url

    def _send_authenticated(self, method: str, url: str) -> SafeResponse:
        reply = self._send(method, url)
        if reply.status == 401 and not self.token:
            self.token = self._fetch_token(reply.headers.get("www-authenticate", ""))
            reply = self._send(method, url)
        if reply.status != 200:
            raise RegistryRefused(self._describe_status(reply.status, url))
        return reply

    def _describe_status(self, status: int, url: str) -> str:
        """Return the meaning of an HTTP status for this request."""
        host, resource = urlsplit(url).hostname, self.repository or urlsplit(url).path
        if status == 404 and "/manifests/" in url:
            return f"{host} has no tag {unquote(url.rpartition('/')[2])} in {resource} ({status})"
        if status == 404 and self.repository:
            return f"{host} has no repository {resource} ({status})"
        if status in (401, 403):
            login = "with these credentials" if self.login else "without credentials"
            return f"{host} denied access to {resource} {login} ({status})"
        if status == 429:
            return f"{host} refused more requests for now ({status})"
        if status >= 500:
            return f"{host} has a server error ({status})"
        return f"{host} answered {status} for {resource}"

    def _send(self, method: str, url: str) -> SafeResponse:
        headers = {"Accept": _MANIFESTS if "/manifests/" in url else "application/json"}
        if self.token not in ("", _BASIC):
            headers["Authorization"] = f"Bearer {self.token}"
        auth = self.login if self.token == _BASIC else None
        return send_request(SafeRequest(method, url, headers=headers, auth=auth), self.way)

    def _fetch_token(self, challenge: str) -> str:
        scheme, _, auth_params = challenge.partition(" ")
        if scheme.lower() == "basic" and self.login:
            return _BASIC
        parameters = dict(_CHALLENGE.findall(auth_params))
        realm = parameters.get("realm", "")
        if scheme.lower() != "bearer" or not realm:
            raise RegistryRefused(
                f"{urlsplit(self.base).hostname} requires credentials that are missing or unknown"
            )
        if urlsplit(realm).scheme != "https" and urlsplit(realm).netloc != urlsplit(self.base).netloc:
            raise RegistryRefused("the registry redirects authentication to another host without TLS")
        query = {"service": parameters.get("service", "")}
        if self.scope:
            query["scope"] = self.scope
        reply = send_request(SafeRequest("GET", f"{realm}?{urlencode(query)}", auth=self.login), self.way)
        body = _parse_json(reply)
        token = body.get("token") or body.get("access_token")
        if reply.status != 200 or not isinstance(token, str):
            raise RegistryRefused(f"{urlsplit(realm).hostname} returned no token: {reply.status}")
        return token


# Marker instead of a token: the registry requires name and password each time.
_BASIC = "basic"


def _parse_json(reply: SafeResponse) -> dict[str, Any]:
    try:
        body = json.loads(reply.body)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise RegistryRefused(f"the response ({reply.status}) is not the expected JSON")
    return body
