"""The search itself: it finds what is planted, in every form and every place."""

import base64
import gzip
import json
import zlib
from pathlib import Path
from urllib.parse import quote

import pytest
import redis

from rbac.audit import record_audit_entry
from rbac.models import Scope, User
from tests.secrecy.planted_secrets import Planted, Search, collect_broker_commands

VALUE = "planted/value+of 'a' \"secret\""


@pytest.fixture
def search() -> Search:
    return Search([Planted("the secret", VALUE)])


@pytest.mark.parametrize(
    "content",
    [
        VALUE,
        json.dumps({"value": VALUE}),
        f"?value={quote(VALUE, safe='')}",
        base64.b64encode(f"user:{VALUE}!".encode()),
        base64.urlsafe_b64encode(f"x{VALUE}".encode()),
        VALUE.encode().hex(),
        zlib.compress(f"a log line with {VALUE}".encode()),
        gzip.compress(VALUE.encode()),
    ],
    # The content would name the test otherwise, and a packed one holds the time.
    ids=["plain", "json", "address", "base64", "urlsafe-base64", "hexadecimal", "deflated", "gzipped"],
)
def test_each_form_is_found(search: Search, content: object) -> None:
    search.search_content("place", content)
    assert search.findings


def test_what_is_not_there_is_not_found(search: Search) -> None:
    search.search_content("place", "planted/value")
    assert not search.findings


def test_a_line_of_many_is_found() -> None:
    search = Search([Planted("the key", "-----BEGIN-----\nMIIEvQIBADANBgkq\n-----END-----")])
    search.search_content("place", "said MIIEvQIBADANBgkq!")
    assert search.findings == ["the key in place"]


def test_the_database_is_searched(search: Search, account: Scope, admin: User) -> None:
    search.search_database()
    assert not search.findings
    record_audit_entry(actor=admin, action="planted", thing=account, after={"value": VALUE})
    search.search_database()
    assert search.findings == ["the secret in database rbac_auditentry.after"]


def test_files_are_searched(search: Search, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "some.log").write_bytes(b"\xff " + VALUE.encode())
    search.search_files(tmp_path)
    assert search.findings == ["the secret in file folder/some.log"]


def test_the_broker_and_what_passes_through_it_are_searched(search: Search, broker_url: str) -> None:
    with collect_broker_commands(broker_url) as commands, redis.Redis.from_url(broker_url, db=1) as client:
        client.set("kept", VALUE)
        client.publish("channel", json.dumps({"value": VALUE}))
    search.search_broker(broker_url)
    assert any("kept" in place for place in search.findings)
    search.findings.clear()
    search.search_content("messages", b"\n".join(command for command in commands if b"PUBLISH" in command))
    assert search.findings
