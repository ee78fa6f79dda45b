"""Checks of the whole that are not tests: migrations match the models, production settings are safe."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from cryptography.fernet import Fernet

ROOT = Path(__file__).resolve().parent.parent


def production_environment() -> dict[str, str]:
    """The variables of a production installation, with values made up on the spot."""
    return {
        "SLIPWAY_MODE": "production",
        "DATABASE_URL": "postgres://slipway:example@127.0.0.1:5432/slipway",
        "REDIS_URL": "redis://127.0.0.1:6379",
        "SECRET_KEY": Fernet.generate_key().decode() + Fernet.generate_key().decode(),
        "FIELD_ENCRYPTION_KEY": Fernet.generate_key().decode(),
        "PUBLIC_URL": "https://slipway.example.com",
    }


def manage(*arguments: str, environment: Mapping[str, str]) -> int:
    command = [sys.executable, "-W", "error::RuntimeWarning", "manage.py", *arguments]
    print("manage.py", *arguments, flush=True)
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, check=False).returncode


def main() -> int:
    with tempfile.TemporaryDirectory() as home:
        embedded = {"SLIPWAY_HOME": home, "SLIPWAY_MODE": "embedded", "DATABASE_URL": ""}
        production = {"SLIPWAY_HOME": home, **production_environment()}
        return (
            manage("check", "--fail-level", "WARNING", environment=embedded)
            or manage("makemigrations", "--check", "--dry-run", environment=embedded)
            or manage("check", "--deploy", "--fail-level", "WARNING", environment=production)
        )


if __name__ == "__main__":
    sys.exit(main())
