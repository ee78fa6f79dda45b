"""Which tests run on PostgreSQL too: those that ask a database, and of many alike a part."""

import zlib

import pytest

# All that reach the test database ask for one of these, or ask for something that does.
DATABASE = {"db", "transactional_db", "django_db_setup", "live_server"}
BROWSER = "chromium"
# Of a test with many examples the first and one of this many others: the queries are mostly the same.
ONE_OF = 6
# Policy, encrypted columns, claims and fences: what these packages promise, the database has to keep.
DATABASE_SENSITIVE = ("connectors", "deployments", "log", "protocol", "rbac", "routing")
# Long stories between the engine and AWS: what they keep is kept by the same few tables as in `deployments`.
STORIES = ("blue_green", "run_task", "scaling", "service_options", "stacks", "terraform", "terraform_cloud")


def mark_for_postgres(items: list[pytest.Item]) -> None:
    """Mark what `-m postgres` chooses, which is what CI runs on PostgreSQL after it ran everything on SQLite.

    A test that was marked by hand, or is in a package whose promises the database keeps, runs with every
    example. One that drives a browser runs on SQLite alone: other tests load the same pages. Of the stories
    of AWS one of six is told again.
    """
    seen: set[str] = set()
    for item in items:
        if "postgres" in item.keywords or not asks_database(item):
            continue
        function = item.nodeid.partition("[")[0]
        is_first = function not in seen and item.path.parent.name not in STORIES
        seen.add(function)
        if is_sensitive(item) or (not drives_browser(item) and (is_first or is_chosen(item))):
            item.add_marker("postgres")


def asks_database(item: pytest.Item) -> bool:
    """Whether a test reaches the test database, by itself or by what it asks for."""
    is_case = hasattr(getattr(item, "cls", None), "databases")
    return is_case or "django_db" in item.keywords or not DATABASE.isdisjoint(_fixtures_of(item))


def drives_browser(item: pytest.Item) -> bool:
    """Whether a test looks at pages in a browser."""
    return BROWSER in _fixtures_of(item)


def is_sensitive(item: pytest.Item) -> bool:
    """Whether a test is about what the database itself has to keep."""
    return item.path.parent.name in DATABASE_SENSITIVE and "django_db" in item.keywords


def is_chosen(item: pytest.Item) -> bool:
    """Whether this example is one of those that stand for the others; the same in each run."""
    return zlib.crc32(item.nodeid.encode()) % ONE_OF == 0


def _fixtures_of(item: pytest.Item) -> list[str]:
    return list(getattr(item, "fixturenames", ()))
