"""Masks that hide secrets in text, JSON and program output, in every form that programs print."""

import html
import json
import re
from base64 import b64encode
from codecs import getincrementaldecoder
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, quote_plus

from guards.text import MAX_LINE_BYTES, sanitize_text

_MIN_PART_CHARACTERS = 6


def list_printed_forms(secret: str) -> set[str]:
    """Return every encoding of a secret, and those of each of its lines."""
    parts = {secret, secret.strip(), *secret.splitlines(), *map(str.strip, secret.splitlines())}
    return {
        form for part in parts if len(part) >= _MIN_PART_CHARACTERS for form in _iterate_printed_forms(part)
    }


def _iterate_printed_forms(text: str) -> Iterator[str]:
    encoded = text.encode("utf-8", "replace")
    yield text
    yield "\n".join(sanitize_text(line) for line in text.splitlines())
    yield sanitize_text(text)
    yield from _iterate_string_literals(text)
    yield from (
        html.escape(text),
        html.escape(text).replace("&#x27;", "&#39;"),
        html.escape(text, quote=False),
    )
    for quoted in (quote(encoded, safe=""), quote(encoded), quote_plus(encoded)):
        yield quoted
        yield _lower_percent_escapes(quoted)
        yield quote(quoted, safe="")
    for letters in _iterate_base64_forms(encoded):
        yield letters
        yield quote(letters, safe="")
        yield letters.replace("/", "\\/")
    yield from (encoded.hex(), encoded.hex().upper(), encoded.hex(" "), encoded.hex(":"))


def _iterate_string_literals(text: str) -> Iterator[str]:
    """Yield the string literals of a secret in JSON, nested JSON, Python and shells."""
    for plain in (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]):
        yield plain
        yield json.dumps(plain)[1:-1]
        yield plain.replace("/", "\\/")
        yield _UNICODE_ESCAPE.sub(lambda match: match[0].upper().replace("\\U", "\\u"), plain)
        for signs in ("[<>]", "[<>&]"):
            yield re.sub(signs, lambda match: f"\\u{ord(match[0]):04x}", plain)
        yield re.sub("[<>&'+]", lambda match: f"\\u{ord(match[0]):04X}", plain)
    yield from (repr(text)[1:-1], repr(text.encode("utf-8", "replace"))[2:-1])
    yield text.replace("'", "'\\''")


_UNICODE_ESCAPE = re.compile(r"\\u[0-9a-f]{4}")


def _lower_percent_escapes(quoted: str) -> str:
    head, *parts = quoted.split("%")
    return "".join((head, *(f"%{part[:2].lower()}{part[2:]}" for part in parts)))


def _iterate_base64_forms(secret: bytes) -> Iterator[str]:
    """Yield the Base64 letters that depend only on the secret, for each of its three alignments."""
    for offset in range(3):
        bits = (offset + len(secret)) * 8
        encoded = b64encode(b"\0" * offset + secret).decode()[-(-offset * 8 // 6) : bits // 6]
        yield encoded
        yield encoded.replace("+", "-").replace("/", "_")


MASK_TEXT = "•••"
# Shorter secrets would redact half of every log.
MIN_SECRET_CHARACTERS = 6
# Minimum length of a single line of a wrapped form to be recognized.
MIN_PIECE_CHARACTERS: Final = 16
# Breaks that programs insert into long encodings: a line end, real or escaped, and an indent. Spaces match
# from the first one only, otherwise many in a row would take quadratic time.
_LINE_BREAK: Final = re.compile(r"(?:(?<![ \t])[ \t]+)?(?:\r?\n|(?:\\r)?\\n)[ \t]*")
_INDENTED_BREAKS: Final = ("\r", "\n ", "\n\t", " \n", "\t\n")
_ENCODED_TEXT: Final = re.compile(r"[A-Za-z0-9+/_%=-]+")
_QUOTES: Final = "\"'`,;\\ \t\r"


class SecretMask:
    """Mask of a set of secrets, built once for many lines, because the encodings are slow to compute."""

    def __init__(self, secrets: Sequence[str] = ()) -> None:
        forms = {
            form
            for secret in secrets
            for form in list_printed_forms(secret)
            if len(form) >= MIN_SECRET_CHARACTERS
        }
        # The longest first: a secret that contains another one is redacted as a whole.
        self._forms = sorted(forms, key=lambda form: (-len(form), form))
        unbroken = [form for form in self._forms if not re.search(r"\s", form)]
        # Escaped line ends inside the secret count as breaks too.
        bare = [_LINE_BREAK.sub("", form) for form in unbroken if "\\n" in form]
        self._unbroken_forms = [*unbroken, *(form for form in bare if len(form) >= MIN_SECRET_CHARACTERS)]
        # One text to search; the separator between two encodings is in no piece.
        self._searchable_forms = "\0".join(
            form for form in self._unbroken_forms if _ENCODED_TEXT.fullmatch(form)
        )

    @property
    def longest_form(self) -> int:
        """Return the length of the longest encoding."""
        return len(self._forms[0]) if self._forms else 0

    def mask_text(self, text: str) -> str:
        """Return a text with all known secrets redacted and the same number of lines."""
        if not self._forms:
            return text
        for form in self._forms:
            if form in text:
                text = text.replace(form, MASK_TEXT + "\n" * form.count("\n"))
        if "\n" in text or "\\n" in text:
            text = self._mask_wrapped_forms(text)
        return self._mask_pieces(text) if self._searchable_forms else text

    def mask_json(self, value: Any) -> Any:
        """Redact all texts in a JSON value, including keys."""
        if not self._forms:
            return value
        if isinstance(value, str):
            return self.mask_text(value)
        if isinstance(value, Mapping):
            return {self.mask_text(str(name)): self.mask_json(item) for name, item in value.items()}
        return [self.mask_json(item) for item in value] if isinstance(value, list | tuple) else value

    def mask_lines(self, texts: Sequence[str]) -> list[str]:
        """Redact many lines at once, including secrets that span lines."""
        if not self._forms or not texts:
            return list(texts)
        return self.mask_text("\n".join(texts)).split("\n")

    def _mask_wrapped_forms(self, text: str) -> str:
        """Redact encodings that are wrapped over lines."""
        joined = _join_lines(text)
        for form in self._unbroken_forms:
            if form in joined:
                text = _mask_wrapped(text, form)
                joined = _join_lines(text)
        return text

    def _mask_pieces(self, text: str) -> str:
        """Redact a line end that is only a part of a secret: one line of a wrapped encoding."""
        ends = [line.rpartition(" ")[2].strip(_QUOTES) for line in text.split("\n")]
        for piece in {
            end for end in ends if len(end) >= MIN_PIECE_CHARACTERS and end in self._searchable_forms
        }:
            text = text.replace(piece, MASK_TEXT)
        return text


EMPTY_MASK = SecretMask()


HIDDEN_BECAUSE: Final = "(hidden, because a secret cannot be read: "


class HidingMask(SecretMask):
    """Mask for secrets that cannot be read: it hides every text, and shows why in its place."""

    def __init__(self, reason: str) -> None:
        super().__init__()
        self.reason = f"{HIDDEN_BECAUSE}{sanitize_text(reason)})"

    def mask_text(self, text: str) -> str:
        """Return the reason, with the same number of lines; blank texts stay."""
        return "\n".join(self.reason if line.strip() else "" for line in text.split("\n"))

    def mask_json(self, value: Any) -> Any:
        """Return a value without any text of the given one; names of fields are texts too."""
        if isinstance(value, str):
            return self.mask_text(value)
        if isinstance(value, Mapping):
            return {HIDDEN: self.reason} if value else {}
        return [self.mask_json(item) for item in value] if isinstance(value, list | tuple) else value

    def mask_lines(self, texts: Sequence[str]) -> list[str]:
        """Return the reason in place of each line."""
        return [self.mask_text(text) for text in texts]


def _join_lines(text: str) -> str:
    """Return the text without its breaks."""
    if "\\n" in text:
        return _LINE_BREAK.sub("", text)
    if not any(beside in text for beside in _INDENTED_BREAKS):
        return text.replace("\n", "")
    # Much faster, and the same.
    return "".join([line.strip(" \t\r") for line in text.split("\n")])


def _mask_wrapped(text: str, form: str) -> str:
    """Return the text without a form that breaks interrupt; the ends of lines among them stay."""
    positions = _list_text_positions(text)
    joined = "".join(text[place] for place in positions)
    pieces, copied, start = [], 0, joined.find(form)
    while start >= 0:
        begin, end = positions[start], positions[start + len(form) - 1] + 1
        pieces += [text[copied:begin], MASK_TEXT, "\n" * text.count("\n", begin, end)]
        copied, start = end, joined.find(form, start + len(form))
    return "".join([*pieces, text[copied:]])


def _list_text_positions(text: str) -> list[int]:
    """Return the positions of the characters that are not part of line breaks."""
    positions: list[int] = []
    end = 0
    for match in _LINE_BREAK.finditer(text):
        positions += range(end, match.start())
        end = match.end()
    return [*positions, *range(end, len(text))]


class MaskedLineReader:
    """Reader that joins chunks to lines, with at most one line in memory.

    A line without an end is returned in pieces of 16 KiB. A secret across two pieces is redacted before the
    split.
    """

    def __init__(self, mask: SecretMask = EMPTY_MASK) -> None:
        self._mask = mask
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._pending = ""

    def feed(self, data: bytes) -> list[str]:
        """Return the lines that one more read completes, without their ends."""
        text = self._pending + self._decoder.decode(data)
        *lines, self._pending = text.replace("\r\n", "\n").split("\n")
        self._pending = self._split_long_line(lines, self._pending)
        return [line.removesuffix("\r") for line in lines]

    def end(self) -> list[str]:
        """Return the rest at the end of the input."""
        remainder, self._pending = self._pending + self._decoder.decode(b"", final=True), ""
        return [remainder] if remainder else []

    def _split_long_line(self, lines: list[str], pending: str) -> str:
        longest = self._mask.longest_form
        if len(pending) <= MAX_LINE_BYTES + longest:
            return pending
        pending = self._mask.mask_text(pending)
        while len(pending) > MAX_LINE_BYTES + longest:
            lines.append(pending[:MAX_LINE_BYTES])
            pending = pending[MAX_LINE_BYTES:]
        return pending


HIDDEN = "•••"
_KEYS_WITH_SECRET_VALUES = ("environment", "environmentFiles", "files", "hcl", "headers", "inputs")
_OMITTED_KEYS = ("clientToken", "ClientRequestToken", "logUrl")
_HIDDEN_KEYS = ("ParameterValue",)
_ABBREVIATED_KEYS = ("TemplateBody",)
_SENSITIVE_WORDS = ("token", "password", "secret", "key")
_SECRET_NAMES = (
    "password", "passwd", "secret", "token", "authorization", "credential",
    "private_key", "privatekey", "api_key", "apikey", "access_key", "accesskey",
)  # fmt: skip


def is_sensitive_name(name: str) -> bool:
    """Return whether the name of an option suggests that its value is a secret."""
    return any(word in name.lower() for word in _SENSITIVE_WORDS)


def redact_sensitive_options(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Return a log configuration of a container without the values of sensitive options."""
    options = configuration.get("options")
    if not isinstance(options, Mapping):
        return dict(configuration)
    redacted = {name: HIDDEN if is_sensitive_name(str(name)) else value for name, value in options.items()}
    return {**configuration, "options": redacted}


def redact_sensitive_names(value: Any, *, is_sensitive: bool = False) -> Any:
    """Return JSON of a stranger with all texts below names such as password or access_token hidden.

    Words as short as "key" stay: issues and objects have one.
    """
    if isinstance(value, Mapping):
        return {
            name: redact_sensitive_names(
                item, is_sensitive=is_sensitive or any(word in name.lower() for word in _SECRET_NAMES)
            )
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [redact_sensitive_names(item, is_sensitive=is_sensitive) for item in value]
    return HIDDEN if is_sensitive and isinstance(value, str) and value else value


def redact_parameters(params: Mapping[str, Any], mask: SecretMask) -> dict[str, Any]:
    """Return the parameters with environment values and known secrets redacted; ARNs of secrets stay."""
    return {key: _redact_value(key, value, mask) for key, value in params.items() if key not in _OMITTED_KEYS}


def _redact_value(key: str, value: Any, mask: SecretMask) -> Any:
    if isinstance(value, Mapping):
        if key in _KEYS_WITH_SECRET_VALUES:
            return dict.fromkeys(value, HIDDEN)
        return {name: _redact_value(name, item, mask) for name, item in value.items()}
    if isinstance(value, list | tuple):
        if key in _KEYS_WITH_SECRET_VALUES:
            return [{**item, "value": HIDDEN} if isinstance(item, Mapping) else HIDDEN for item in value]
        return [_redact_value(key, item, mask) for item in value]
    if key in _HIDDEN_KEYS:
        return HIDDEN
    if key in _ABBREVIATED_KEYS and isinstance(value, str):
        return f"{len(value):,} characters"
    return mask.mask_text(value) if isinstance(value, str) else value
