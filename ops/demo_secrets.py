"""The demo's password and API key: from the environment, else made up once and kept in the state folder."""

import os
import secrets
from pathlib import Path

from django.conf import settings

PASSWORD_VARIABLE = "SLIPWAY_DEMO_PASSWORD"  # noqa: S105 - the name of a variable
API_KEY_VARIABLE = "SLIPWAY_DEMO_API_KEY"


def demo_password() -> str:
    """The password of the three demo people."""
    return given(PASSWORD_VARIABLE) or _kept("demo_password", secrets.token_urlsafe(12))


def demo_api_key() -> str:
    """The API key of the demo's admin."""
    return given(API_KEY_VARIABLE) or _kept("demo_api_key", f"slp_pat_{secrets.token_urlsafe(32)}")


def given(variable: str) -> str:
    """What the environment says, or nothing."""
    return os.environ.get(variable, "")


def _kept(name: str, fresh: str) -> str:
    path = Path(settings.HOME) / "keys" / name
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        # Closed to others from its first moment on.
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(fresh)
    except FileExistsError:
        pass
    return path.read_text().strip()
