"""Password and API key of the demo, from the environment or generated once."""

import os
import secrets
from pathlib import Path

from django.conf import settings

PASSWORD_VARIABLE = "SLIPWAY_DEMO_PASSWORD"  # noqa: S105 - the name of a variable
API_KEY_VARIABLE = "SLIPWAY_DEMO_API_KEY"


def get_demo_password() -> str:
    """Return the password of the three demo people."""
    return get_variable(PASSWORD_VARIABLE) or _read_or_create("demo_password", secrets.token_urlsafe(12))


def get_demo_api_key() -> str:
    """Return the API key of the demo's admin."""
    return get_variable(API_KEY_VARIABLE) or _read_or_create(
        "demo_api_key", f"slp_pat_{secrets.token_urlsafe(32)}"
    )


def get_variable(variable: str) -> str:
    """Return an environment variable, or an empty text."""
    return os.environ.get(variable, "")


def _read_or_create(name: str, fresh: str) -> str:
    path = Path(settings.HOME) / "keys" / name
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        # Closed to others from its first moment on.
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(fresh)
    except FileExistsError:
        pass
    return path.read_text().strip()
