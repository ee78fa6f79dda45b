"""Changed inputs for five parsers of foreign text: expressions, YAML, JSON, log lines, colors of a log."""

import base64
import json
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import sync_playwright

from benchmarks.goals import Figure
from guards.input_problems import InputRejected
from guards.json_parser import parse_json
from guards.limits import EXPRESSION_RESULT_CHARACTERS
from guards.masks import MaskedLineReader
from guards.text import MAX_LINE_BYTES, sanitize_text, truncate_text
from guards.yaml_parser import parse_yaml
from steps.expressions import BadExpressionError, resolve_expressions
from tests.fixtures.chromium import SWITCHES, find_chromium

INPUTS: Final = int(os.environ.get("PARSER_INPUTS", "5000000"))
SEED: Final = int(os.environ.get("PARSER_SEED", "0")) or random.randrange(1, 2**32)
# Inputs of one start of a process, and changes until the next one starts from a sample again.
PORTION, CHANGES = 100_000, 8
LONGEST_INPUT: Final = 2_000
LONGEST_SECONDS: Final = 0.1
SHOWN_FAILURES: Final = 5
ANSI_SCRIPT: Final = Path(__file__).resolve().parent.parent / "static/js/ansi.js"
# What all parsers refuse, replace or take for text.
ODD_PIECES: Final = (
    "\0", "\ud800", "\udc00", "\u202e", "\ufeff", "\u2028", "\x85", "\x1b", "\r", "\n", "\t", " ",
    "\\", "\"", "'", "é", "😀", "\U0010ffff", "9" * 30, "1e999", "-0", "{" * 20, "[" * 20, "a" * 200,
    "\\u0000", "\\ud83d",
)  # fmt: skip
KNOWN: Final[dict[str, Any]] = {
    "infra": {"cluster": "demo", "count": 3, "is_on": True},
    "serviceVariables": {"a": "<+infra.cluster>", "long": "x" * 4096, "list": [1, 2], "none": None},
}


@dataclass(frozen=True)
class Parser:
    """Parser with samples, and the pieces that mean something to it.

    `check` returns whether it took a text or refused it, and raises if it did neither, or wrongly.
    """

    samples: Sequence[str]
    pieces: Sequence[str]
    check: Callable[[str], bool]


def check_expressions(text: str) -> bool:
    """Fill in the expressions, or refuse them."""
    try:
        filled = resolve_expressions(text, KNOWN)
    except BadExpressionError:
        return False
    if isinstance(filled, str) and len(filled) > max(EXPRESSION_RESULT_CHARACTERS, len(text)):
        raise AssertionError(f"{len(filled)} characters")
    return True


def check_yaml(text: str) -> bool:
    """Parse a document, or refuse it with its place, with and without aliases."""
    is_taken = True
    for expands_aliases in (False, True):
        try:
            parse_yaml(text, expands_aliases=expands_aliases)
        except InputRejected as rejected:
            _require_place(rejected)
            is_taken = False
    return is_taken


def check_json(text: str) -> bool:
    """Parse a value as Python does, or refuse it with its place."""
    try:
        value = parse_json(text)
    except InputRejected as rejected:
        _require_place(rejected)
        return False
    if value != json.loads(text):
        raise AssertionError(f"another value than {value!r:.200}")
    return True


def _require_place(rejected: InputRejected) -> None:
    problem = rejected.problem
    if not problem.reason or (problem.line or 0) < 1 or (problem.column or 0) < 1:
        raise AssertionError(f"no place: {problem}")


def check_lines(text: str) -> bool:
    """Split output into lines of limited length that can be stored and shown."""
    data = text.encode("utf-8", "surrogateescape" if "\udc80" <= text[:1] <= "\udcff" else "replace")
    reader, middle = MaskedLineReader(), len(data) // 2
    lines = [*reader.feed(data[:middle]), *reader.feed(data[middle:]), *reader.end()]
    for line in lines:
        shown = truncate_text(sanitize_text(line))
        if "\0" in shown or "\n" in shown or len(shown.encode()) > MAX_LINE_BYTES + 100:
            raise AssertionError(f"not storable: {shown!r:.200}")
        if sanitize_text(shown) != shown:
            raise AssertionError(f"not the same a second time: {shown!r:.200}")
    return True


PARSERS: Final = {
    "expressions": Parser(
        ("<+infra.cluster>", "a <+serviceVariables.a> b <+infra.count>", "<+serviceVariables.list>"),
        ("<+", ">", "<", "+", ".", "infra", "cluster", "serviceVariables", "a", "long", "list", "[0]", "()"),
        check_expressions,
    ),
    "YAML": Parser(
        (
            "a: 1\nb: [x, 'y']\nc: {d: e}\n",
            "list:\n  - name: &n web\n    port: 0x1F\n  - *n\n",
            "text: |\n  one\n  two\nfolded: >-\n  three\n",
            '{"family": "web", "cpu": "256", "on": true}',
        ),
        (": ", "- ", "\n", "\n  ", "|", "&a ", "*a", "<<: ", "!!int ", "!x ", "? ", "#", "%YAML 1.2\n"),
        check_yaml,
    ),
    "JSON": Parser(
        ('{"a": [1, -2.5e3, true, null], "b": {"c": "d"}}', '[{"x": "\\u00e9\\n"}, []]', '"text"'),
        ("{", "}", "[", "]", ",", ":", '"a"', "true", "null", "NaN", "1.5", "1e5", "//", "\\u", "0"),
        check_json,
    ),
    "log lines": Parser(
        ("one\ntwo\r\nthree", "\x1b[31mred\x1b[0m\n", "a" * 1_500),
        ("\x1b[1m", "\x1b]8;;http://x\x07", "\r\n", "b" * 1_000, "\x9b", "\x08", "Ã", "�"),
        check_lines,
    ),
}  # fmt: skip


def report() -> Iterator[str | Figure]:
    """Give each parser its inputs, on all cores, and print what failed, with the input."""
    yield f"seed {SEED}, {INPUTS:,} inputs for each parser"
    with ProcessPoolExecutor() as pool:
        for name in PARSERS:
            began = time.monotonic()
            counts = [min(PORTION, INPUTS - start) for start in range(0, INPUTS, PORTION)]
            seeds = [f"{SEED} {name} {number}" for number in range(len(counts))]
            results = list(pool.map(run_inputs, [name] * len(counts), seeds, counts))
            taken = sum(result.taken for result in results)
            failures = [failure for result in results for failure in result.failures]
            seconds = time.monotonic() - began
            yield from _describe(
                name, failures, f"{taken / INPUTS:.0%} taken, others refused, {seconds:.0f} s"
            )
    yield from _measure_browser()


def _describe(name: str, failures: Sequence[str], details: str) -> Iterator[str | Figure]:
    yield Figure("R9 inputs", INPUTS / 1_000_000, name)
    yield Figure("R9 failures", len(failures), name)
    yield f"  {name}: {len(failures)} failures; {details}"
    yield from (f"    {failure}" for failure in failures[:SHOWN_FAILURES])


@dataclass
class Result:
    """How many inputs a parser took instead of refusing them, and each failure with its input."""

    taken: int = 0
    failures: list[str] = field(default_factory=list)


def run_inputs(name: str, seed: str, count: int) -> Result:
    """Give a parser `count` inputs; a seed always makes the same ones."""
    parser, chance = PARSERS[name], random.Random(seed)
    result, text = Result(), ""
    for number in range(count):
        text = change_text(chance, parser, text if number % CHANGES else chance.choice(parser.samples))
        began = time.process_time()
        try:
            result.taken += parser.check(text)
        except Exception as exc:  # noqa: BLE001 -- any other error than a refusal is what is searched for
            result.failures.append(f"{type(exc).__name__}: {exc!s:.200}: {text!r}")
        if (seconds := time.process_time() - began) > LONGEST_SECONDS:
            result.failures.append(f"{seconds:.2f} s: {text!r}")
    return result


def change_text(chance: random.Random, parser: Parser, text: str) -> str:
    """Return a text with a piece inserted, a part removed, repeated or replaced, or one of another sample."""
    first = chance.randrange(len(text) + 1)
    last = min(len(text), first + chance.randrange(12))
    kind = chance.randrange(6)
    if kind == 0:
        middle = ""
    elif kind == 1:
        middle = text[first:last] * 3
    elif kind == 2:
        middle = chance.choice(ODD_PIECES)
    elif kind == 3:
        middle, last = chance.choice(parser.samples), first
    else:
        middle = chance.choice(parser.pieces)
        last = first if kind == 4 else last
    return (text[:first] + middle + text[last:])[:LONGEST_INPUT]


# Returns failures; the generator is that of xorshift, as Math.random takes no seed.
_BROWSER_INPUTS: Final = r"""async ([address, count, seed, pieces, longest, changes]) => {
    const { parse, plain } = await import(address);
    const FORBIDDEN = /[\x00-\x08\x0a-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/;
    let state = seed;
    const choose = (most) => {
        state ^= state << 13; state ^= state >>> 17; state ^= state << 5;
        return (state >>> 0) % most;
    };
    const failures = [];
    let text = "";
    for (let number = 0; number < count; number += 1) {
        if (number % changes === 0) text = "one \x1b[1;31mtwo\x1b[0m three";
        const at = choose(text.length + 1);
        const piece = pieces[choose(pieces.length)];
        text = (text.slice(0, at) + piece + text.slice(at + choose(6))).slice(0, longest);
        try {
            const shown = parse(text).map((piece) => piece.text).join("");
            if (FORBIDDEN.test(shown)) throw new Error("a control");
            if (parse(text).some((piece) => !/^[a-z0-9 ]*$/.test(piece.css))) throw new Error("a class");
            if (shown.length > text.length * 8) throw new Error("longer");
            if (plain(shown) !== shown) throw new Error("not the same a second time");
        } catch (error) {
            failures.push(`${error}: ${JSON.stringify(text)}`);
        }
    }
    return failures;
}"""
_COLOR_PIECES: Final = (
    "\x1b[", "\x1b]", "m", ";", ":", "38;5;", "48;2;1;2;3", "0", "31", "97", "\x1b[K", "\x07", "\x1b\\",
    "\x9b", "\u202e", "\u2066", "\ufeff", "<b>", "\0", "\t", "\n", "é", "😀", "\ud800", "a" * 50,
)  # fmt: skip


def _measure_browser() -> Iterator[str | Figure]:
    name, program = "log colors", find_chromium()
    if program is None:
        yield f"{name}: no Chromium here"
        return
    address = f"data:text/javascript;base64,{base64.b64encode(ANSI_SCRIPT.read_bytes()).decode()}"
    began = time.monotonic()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(SWITCHES))
        page = browser.new_page()
        # A page takes one seed and a few seconds, so that it does not count as hanging.
        failures = [
            failure
            for start in range(0, INPUTS, PORTION)
            for failure in page.evaluate(
                _BROWSER_INPUTS,
                [
                    address,
                    min(PORTION, INPUTS - start),
                    (SEED + start) % 2**31 or 1,
                    _COLOR_PIECES,
                    LONGEST_INPUT,
                    CHANGES,
                ],
            )
        ]
        browser.close()
    yield from _describe(name, failures, f"{time.monotonic() - began:.0f} s")
