"""What a window of a browser shows: what a picture of it would hold, and what its markup says besides."""

from playwright.sync_api import Error, Page

from tests.secret_watch.watch import search_content

# A password field shows dots; what somebody types there is no answer of the site.
SHOWN = """() => [
    document.title,
    document.body?.innerText ?? "",
    document.documentElement.outerHTML,
    ...Array.from(
        document.querySelectorAll("input:not([type=password]), textarea, select"),
        (one) => one.value,
    ),
].join("\\n")"""


def search_page(page: Page) -> None:
    """Look into the texts, the entered values and the attributes of a window as it is now."""
    try:
        search_content(f"page {page.url}", page.evaluate(SHOWN))
    except Error as error:
        # A window that a test has closed, or in which a script of the page never ends, shows nothing new.
        if not page.is_closed():
            raise AssertionError(f"{page.url} cannot be looked at") from error


def search_before_leaving(page: Page) -> None:
    """Look at each page before the test goes to another address."""
    go = page.goto

    def leave(url: str, **options: object) -> object:
        search_page(page)
        return go(url, **options)  # type: ignore[arg-type]

    page.goto = leave  # type: ignore[method-assign,assignment]
