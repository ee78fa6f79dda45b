"""Paths of the pages that messages link to, for processes that load no URLconf.

Django's `reverse` imports every view of the site: 20 MiB in a worker that shows none of them.
"""

from typing import Final

PAGE_PATHS: Final = {
    "execution": "/deployments/{}/",
    "delegate": "/delegates/{}/",
    "drift-of-service": "/drift/{}/",
}


def get_page_path(name: str, key: object) -> str:
    """Return the path of a page about one thing."""
    return PAGE_PATHS[name].format(key)
