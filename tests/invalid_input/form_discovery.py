"""Finds what pages ask for: their forms with every field, and the queries of their links."""

from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import parse_qsl, urljoin, urlsplit

FIELDS = ("input", "select", "textarea", "button")
NOT_SENT = ("submit", "image", "reset", "file")


@dataclass
class Form:
    """A form as a browser would send it."""

    action: str
    method: str
    fields: dict[str, str] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str, tuple[str, ...]]:
        return self.method, self.action, tuple(sorted(self.fields))


class Page(HTMLParser):
    """The forms and links of one page."""

    def __init__(self, address: str, markup: str) -> None:
        super().__init__(convert_charrefs=True)
        self.address = address
        self.forms: list[Form] = []
        self.links: set[str] = set()
        self.open: Form | None = None
        self.writing: str | None = None
        self.choosing: str | None = None
        self.feed(markup)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attributes}
        if tag == "form":
            address = urljoin(self.address, values.get("action") or self.address)
            self.open = Form(address, values.get("method", "get").lower())
            self.forms.append(self.open)
        elif tag == "a" and values.get("href", "").startswith(("/", "?")):
            self.links.add(urljoin(self.address, values["href"]))
        elif tag in FIELDS and self.open is not None:
            self._field(self.open, tag, values)
        elif tag == "option" and self.open is not None and self.choosing and "selected" in values:
            self.open.fields[self.choosing] = values.get("value", "")

    def _field(self, form: Form, tag: str, values: dict[str, str]) -> None:
        name = values.get("name", "")
        if not name or values.get("type") in NOT_SENT:
            return
        form.fields[name] = values.get("value", "")
        self.writing = name if tag == "textarea" else None
        self.choosing = name if tag == "select" else None

    def handle_data(self, data: str) -> None:
        if self.open is not None and self.writing:
            self.open.fields[self.writing] += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self.open = None
        elif tag == "textarea":
            self.writing = None


def queries_of(addresses: set[str]) -> dict[str, set[str]]:
    """Return the query parameters of these addresses by path."""
    names_by_path: dict[str, set[str]] = {}
    for address in addresses:
        parts = urlsplit(address)
        names = {name for name, _ in parse_qsl(parts.query, keep_blank_values=True)}
        names_by_path.setdefault(parts.path, set()).update(names)
    return names_by_path
