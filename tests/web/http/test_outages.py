"""A database or broker that is away: whoever asks is told so, and a mistake stays a mistake."""

import sqlite3

import psycopg
import pytest
from django.contrib.sessions.backends.db import SessionStore
from django.db import IntegrityError, InterfaceError, OperationalError, ProgrammingError, connection
from django.test import Client
from kombu.exceptions import OperationalError as BrokerError
from psycopg_pool import PoolTimeout
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from rbac.models import User
from web.http import middleware
from web.http.outages import is_outage


def chain_errors(error: Exception, cause: BaseException) -> Exception:
    """An error as Django raises it: with the driver's own behind it."""
    error.__cause__ = cause
    return error


def build_busy_error() -> sqlite3.Error:
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorname = "SQLITE_BUSY"
    return error


AWAY = [
    chain_errors(OperationalError("refused"), psycopg.OperationalError("connection refused")),
    chain_errors(OperationalError("no free connection"), PoolTimeout("couldn't get a connection after 5 s")),
    chain_errors(OperationalError("ended"), psycopg.errors.AdminShutdown("terminating connection")),
    chain_errors(OperationalError("full"), psycopg.errors.TooManyConnections("too many clients already")),
    chain_errors(OperationalError("deadlock"), psycopg.errors.DeadlockDetected("deadlock detected")),
    chain_errors(OperationalError("slow"), psycopg.errors.QueryCanceled("statement timeout")),
    chain_errors(OperationalError("waited"), psycopg.errors.LockNotAvailable("lock timeout")),
    chain_errors(InterfaceError("closed"), psycopg.InterfaceError("the connection is closed")),
    chain_errors(OperationalError("locked"), build_busy_error()),
    RedisConnectionError("refused"),
    BrokerError("refused"),
]
MISTAKES = [
    chain_errors(ProgrammingError("no such table"), psycopg.errors.UndefinedTable("no such table")),
    chain_errors(OperationalError("no such table"), sqlite3.OperationalError("no such table: x")),
    chain_errors(IntegrityError("twice"), psycopg.errors.UniqueViolation("twice")),
    chain_errors(OperationalError("disk"), psycopg.errors.ObjectNotInPrerequisiteState("not ready")),
    ResponseError("unknown command"),
    ValueError("no"),
    None,
]


@pytest.mark.parametrize("error", AWAY, ids=str)
def test_what_passes_by_itself_is_an_outage(error: Exception) -> None:
    assert is_outage(error)


@pytest.mark.parametrize("error", MISTAKES, ids=str)
def test_a_mistake_is_no_outage(error: Exception | None) -> None:
    assert not is_outage(error)


class Away:
    """Stands in front of the database like a server that has gone."""

    def __call__(self, *_: object) -> None:
        raise AWAY[0]


@pytest.mark.django_db
@pytest.mark.parametrize("address", ["/deployments/", "/api/v1/executions", "/api/v1/orgs"])
def test_without_a_database_every_door_says_so(client: Client, admin: User, address: str) -> None:
    client.force_login(admin)

    with connection.execute_wrapper(Away()):
        answer = client.get(address)

    assert answer.status_code == 503
    assert answer["Retry-After"] == "5"
    assert "Try again in a few seconds" in answer.content.decode()
    if address.startswith("/api/"):
        assert answer["Content-Type"] == "application/problem+json"
        assert answer.json()["code"] == "not_available"


@pytest.mark.django_db
def test_a_session_that_cannot_be_kept_is_an_outage_too(admin: User, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(admin)

    def refuse(*_: object, **__: object) -> None:
        raise AWAY[2]

    monkeypatch.setattr(SessionStore, "save", refuse)
    answer = client.get("/deployments/?scope=account")

    assert (answer.status_code, answer["Retry-After"]) == (503, "5")


@pytest.mark.django_db
def test_a_mistake_in_a_query_stays_a_server_error(admin: User, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(admin)

    def raise_mistake(*_: object) -> None:
        raise MISTAKES[1] or AssertionError

    monkeypatch.setattr(middleware, "list_member_scopes", raise_mistake)

    assert client.get("/deployments/").status_code == 500
