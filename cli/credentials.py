"""Sign-ins of the command line: from the environment, or stored for this user only."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cli.errors import CliError, ExitCode

URL_VARIABLE = "SLIPWAY_URL"
KEY_VARIABLE = "SLIPWAY_API_KEY"
_SIGN_IN_ADVICE = f"Sign in with `slipway login --url https://…`, or set {URL_VARIABLE} and {KEY_VARIABLE}."


@dataclass(frozen=True)
class SignIn:
    """Server with the API key to use there."""

    url: str
    key: str
    username: str = ""
    key_id: int | None = None
    """Id of a key that a sign-in by browser has created, and that a sign-out revokes."""


def get_credentials_path() -> Path:
    """Return the path of the stored sign-ins, in the configuration folder of XDG."""
    folder = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(folder) / "slipway" / "credentials.json"


def normalize_url(text: str) -> str:
    """Return the base URL of a server. Raises `CliError` unless it is one of http or https."""
    text = text.strip()
    text = (text if "://" in text else f"https://{text}").rstrip("/")
    try:
        parts = urlsplit(text)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid or "@" in parts.netloc or parts.query or parts.fragment:
        raise CliError(
            f"{text} is not the URL of a server.",
            next_step="Use one such as https://slipway.example.com.",
            code=ExitCode.USAGE,
        )
    return text


def load_sign_in(url: str = "") -> SignIn:
    """Return the sign-in for `url`, else for the server that was signed in to last.

    An API key in the environment replaces stored ones. Raises `CliError` if there is no sign-in.
    """
    stored = _read()
    chosen = url or os.environ.get(URL_VARIABLE, "") or str(stored.get("current", ""))
    if not chosen:
        raise CliError("You are not signed in.", next_step=_SIGN_IN_ADVICE, code=ExitCode.NOT_SIGNED_IN)
    chosen = normalize_url(chosen)
    if key := os.environ.get(KEY_VARIABLE, ""):
        return SignIn(chosen, validate_key(key))
    entry = stored["servers"].get(chosen)
    if entry is None:
        raise CliError(
            f"You are not signed in to {chosen}.", next_step=_SIGN_IN_ADVICE, code=ExitCode.NOT_SIGNED_IN
        )
    return SignIn(chosen, entry["key"], entry.get("username", ""))


def validate_key(text: str) -> str:
    """Return an API key without the blanks around it. Raises `CliError` for a text that is none."""
    key = text.strip()
    if not key or not key.isascii() or not key.isprintable():
        raise CliError(
            "The API key is missing or not valid.",
            next_step=f"Create one under My API keys, then enter it at the prompt or set {KEY_VARIABLE}.",
            code=ExitCode.USAGE,
        )
    return key


def store_sign_in(sign_in: SignIn) -> Path:
    """Store a sign-in as the current one, in a file that only this user can read; return its path."""
    stored = _read()
    entry = {"key": sign_in.key, "username": sign_in.username, "key_id": sign_in.key_id}
    stored["servers"][sign_in.url] = entry
    return _write({**stored, "current": sign_in.url})


def find_stored_sign_in(url: str) -> SignIn | None:
    """Return the stored sign-in for `url`, never that of the environment."""
    entry = _read()["servers"].get(url)
    if entry is None:
        return None
    return SignIn(url, entry["key"], entry.get("username", ""), entry.get("key_id"))


def delete_sign_in(url: str) -> bool:
    """Delete the stored sign-in for `url`; return whether there was one."""
    stored = _read()
    is_stored = stored["servers"].pop(url, None) is not None
    if is_stored:
        current = stored.get("current")
        _write({**stored, "current": next(iter(stored["servers"]), "") if current == url else current})
    return is_stored


def get_stored_url() -> str:
    """Return the URL of the environment or of the stored current sign-in, or an empty text."""
    return os.environ.get(URL_VARIABLE, "") or str(_read().get("current", ""))


def _read() -> dict[str, Any]:
    path = get_credentials_path()
    try:
        content = json.loads(path.read_text())
        servers = content["servers"]
        if not all(isinstance(entry["key"], str) for entry in servers.values()):
            raise TypeError
    except FileNotFoundError:
        return {"servers": {}}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
        raise CliError(
            f"{path} cannot be read.", next_step="Delete the file, then sign in again: slipway login"
        ) from exc
    return dict(content)


def _write(content: dict[str, Any]) -> Path:
    path = get_credentials_path()
    draft = path.with_suffix(f".{os.getpid()}.new")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Closed to others from its first moment on, and replaced in one step.
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(content, file, indent=2)
        draft.replace(path)
    except OSError as exc:
        advice = f"Set XDG_CONFIG_HOME to a folder that you can write, or use {KEY_VARIABLE}."
        raise CliError(f"{path} cannot be written: {exc.strerror}", next_step=advice) from exc
    return path
