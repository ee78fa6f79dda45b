"""The addresses of database and broker become settings with all that stands in them."""

import json
import os
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection
from redis import SSLConnection

from tests.fixtures.processes import ROOT
from tests.wiring import production_environment

SHOW = """
import json
from config import settings
print(json.dumps({name: getattr(settings, name) for name in (
    "DATABASES", "WEB_DATABASE_OPTIONS", "CELERY_BROKER_URL", "CELERY_BROKER_USE_SSL",
    "CACHES", "CHANNEL_LAYERS"
)}))
"""


def settings_of(home: Path, **environment: str) -> dict[str, Any]:
    """The settings of a process that is started with these variables."""
    variables = {**os.environ, **production_environment(), "SLIPWAY_HOME": str(home), **environment}
    completed = subprocess.run(
        [sys.executable, "-c", SHOW], cwd=ROOT, env=variables, check=True, capture_output=True, text=True
    )
    values: dict[str, Any] = json.loads(completed.stdout)
    return values


def test_what_libpq_knows_besides_is_passed_on(tmp_path: Path) -> None:
    url = "postgres://slipway:a%2Fb@db.example.com:6432/name?sslmode=verify-full&sslrootcert=/ca.pem"
    values = settings_of(tmp_path, DATABASE_URL=url, SLIPWAY_DATABASE_POOL_SIZE="3")

    database = values["DATABASES"]["default"]
    assert (database["HOST"], database["PORT"], database["NAME"]) == ("db.example.com", "6432", "name")
    assert (database["USER"], database["PASSWORD"]) == ("slipway", "a/b")
    assert database["OPTIONS"]["sslmode"] == "verify-full"
    assert database["OPTIONS"]["sslrootcert"] == "/ca.pem"
    assert "pool" not in database["OPTIONS"], "a process that forks must not have one"
    assert values["WEB_DATABASE_OPTIONS"]["pool"]["max_size"] == 3


def test_a_folder_may_hold_the_socket_of_the_database(tmp_path: Path) -> None:
    values = settings_of(tmp_path, DATABASE_URL="postgres://slipway@/name?host=/run/postgresql")

    database = values["DATABASES"]["default"]
    assert (database["HOST"], database["NAME"]) == ("/run/postgresql", "name")
    assert "host" not in database["OPTIONS"]


@pytest.mark.parametrize("query", ["", "?ssl_ca_certs=/ca.pem"])
def test_the_certificate_of_the_broker_is_checked(tmp_path: Path, query: str) -> None:
    values = settings_of(tmp_path, REDIS_URL=f"rediss://:secret@broker.example.com:6380{query}")

    connection = Connection(values["CELERY_BROKER_URL"], ssl=values["CELERY_BROKER_USE_SSL"])
    assert isinstance(connection.ssl, dict)
    assert SSLConnection(**connection.ssl).cert_reqs == ssl.CERT_REQUIRED


def test_three_databases_of_the_broker_are_used_with_what_else_its_address_says(tmp_path: Path) -> None:
    url = "rediss://:a%2Fb@broker.example.com:6380?ssl_ca_certs=/ca.pem"
    values = settings_of(tmp_path, REDIS_URL=url)

    server, query = "rediss://:a%2Fb@broker.example.com:6380", "?ssl_ca_certs=/ca.pem"
    assert values["CELERY_BROKER_URL"] == f"{server}/0{query}"
    assert values["CHANNEL_LAYERS"]["default"]["CONFIG"]["hosts"] == [f"{server}/1{query}"]
    assert values["CACHES"]["default"]["LOCATION"] == f"{server}/2{query}"
