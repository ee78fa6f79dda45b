"""Links to commits and comparisons on known Git hosts."""

from typing import Final
from urllib.parse import quote, urlsplit

from connectors.specs.sites import normalize_ssh_url, parse_site_spec
from gitsync.models import GitSync, GitSyncProposal

# Paths below a repository, by a part of the name of the host.
_PATHS: Final = {"github": "", "gitlab": "/-"}


def build_link(proposal: GitSyncProposal) -> str:
    """Return the page of the commit, or of the comparison with the followed branch; empty if unknown."""
    base = _build_repository_page(proposal.sync)
    if not base or not proposal.commit:
        return ""
    if proposal.branch == proposal.sync.branch:
        return f"{base}/commit/{proposal.commit}"
    return f"{base}/compare/{quote(proposal.sync.branch)}...{quote(proposal.branch)}"


def _build_repository_page(sync: GitSync) -> str:
    """Return the page of a repository with the part of its path before commits, or an empty text."""
    if sync.connector is None:
        return ""
    url = urlsplit(normalize_ssh_url(parse_site_spec(sync.connector.spec).build_url(sync.repository)))
    host = url.hostname or ""
    path = next((path for name, path in _PATHS.items() if name in host.split(".")), None)
    return "" if path is None else f"https://{host}{url.path.rstrip('/').removesuffix('.git')}{path}"
