"""URL paths of pages, for processes without a URLconf.

Django's `reverse` imports every view of the site: 20 MiB in a worker.
"""

from typing import Final

PAGE_PATHS: Final = {
    "execution": "/deployments/{}/",
    "approval-link": "/approvals/links/{}/",
    "delegate": "/delegates/{}/",
    "drift-of-service": "/drift/{}/",
    "git-sync": "/git-syncs/{}/",
}


def get_page_path(name: str, key: object) -> str:
    """Return the path of the page of a resource."""
    return PAGE_PATHS[name].format(key)
