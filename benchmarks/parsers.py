"""Fuzzing of five parsers of untrusted text: expressions, YAML, JSON, log lines, ANSI escapes (browser)."""

import base64
import gc
import json
import os
import random
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml
from playwright.sync_api import sync_playwright

from benchmarks.goals import Figure
from guards.input_problems import InputRejected
from guards.json_parser import parse_json
from guards.masks import MaskedLineReader, SecretMask
from guards.text import MAX_LINE_BYTES, sanitize_text, truncate_text
from guards.yaml_parser import parse_yaml
from steps.expressions import BadExpressionError, list_paths, resolve_expressions
from tests.fixtures.chromium import SWITCHES, find_chromium

INPUTS: Final = int(os.environ.get("PARSER_INPUTS", "5000000"))
SEED: Final = int(os.environ.get("PARSER_SEED", "0")) or random.randrange(1, 2**31)
BATCH: Final = 100_000
# Mutations of one sample, each of which is an input; then the next sample.
MUTATIONS: Final = 8
LONGEST_INPUT: Final = 2_000
# One input in so many is repeated to the length at which the limits of its parser apply.
LONG_INTERVAL: Final = 1_000
# Processor time; an input that takes ten times as long is interrupted.
LONGEST_SECONDS: Final = 0.1
KEPT_FAILURES: Final = 5
ANSI_SCRIPT: Final = Path(__file__).resolve().parent.parent / "static/js/ansi.js"
HOSTILE_TOKENS: Final = (
    "\0", "\ud800", "\udc00", "\u202e", "\ufeff", "\u2028", "\x85", "\x1b", "\r", "\n", "\t", " ",
    "\\", "\"", "'", "é", "😀", "\U0010ffff", "9" * 30, "1e999", "-0", "{" * 20, "[" * 20, "a" * 200,
    "\\u0000", "\\ud83d",
)  # fmt: skip
SECRET: Final = "s3cret-of-the-fuzzer"
MASK: Final = SecretMask([SECRET])
EXPRESSION: Final = re.compile(r"<\+([^<>]*)>")
VALUES: Final[dict[str, Any]] = {
    "infra": {"cluster": "demo", "count": 3, "is_on": True},
    "variables": {"a": "<+infra.cluster>", "long": "x" * 65_536, "list": [1, 2], "none": None},
}


@dataclass(frozen=True)
class Parser:
    """Parser with samples and tokens of its language.

    `check` returns whether the parser accepted a text, and raises if it neither accepts nor rejects it, or
    if the result is wrong.
    """

    samples: Sequence[str]
    tokens: Sequence[str]
    longest: int
    check: Callable[[str], bool]


def check_expressions(text: str) -> bool:
    """Compare a resolved text with a plain substitution of the scalar values."""
    try:
        resolved = resolve_expressions(text, VALUES)
    except BadExpressionError:
        return False
    expected = EXPRESSION.sub(lambda match: _SCALARS.get(match[1].strip(), "\0unknown"), text)
    if not EXPRESSION.fullmatch(text) and resolved != expected:
        raise AssertionError(f"{resolved!r:.200} instead of {expected!r:.200}")
    return True


def _list_scalars(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each path with its value as it stands in a text."""
    for path in list_paths(values):
        group, name = path.split(".")
        value = values[group][name]
        if isinstance(value, str | int):
            yield path, str(value).lower() if isinstance(value, bool) else str(value)


_SCALARS: Final = dict(_list_scalars(VALUES))


def check_yaml(text: str) -> bool:
    """Compare a document, parsed with and without aliases, with the texts, lists and mappings of PyYAML."""
    accepted = []
    for expands_aliases in (False, True):
        try:
            accepted.append(parse_yaml(text, expands_aliases=expands_aliases).value)
        except InputRejected as rejected:
            _require_position(rejected)
    if accepted:
        try:
            expected = yaml.load(text, Loader=yaml.CBaseLoader)
        except yaml.composer.ComposerError:
            # It refuses a second anchor of one name, which YAML allows.
            return True
        if not all(_has_same_texts(value, expected) for value in accepted):
            raise AssertionError(f"{accepted!r:.200} instead of {expected!r:.200}")
    return bool(accepted)


def _has_same_texts(value: Any, expected: Any) -> bool:
    if isinstance(value, dict):
        return (
            isinstance(expected, dict)
            and list(value) == list(expected)
            and all(_has_same_texts(value[key], expected[key]) for key in value)
        )
    if isinstance(value, list):
        return (
            isinstance(expected, list)
            and len(value) == len(expected)
            and all(map(_has_same_texts, value, expected))
        )
    return value == expected if isinstance(value, str) else isinstance(expected, str)


def check_json(text: str) -> bool:
    """Compare a value with that of Python's parser."""
    try:
        value = parse_json(text)
    except InputRejected as rejected:
        _require_position(rejected)
        return False
    if repr(value) != repr(expected := json.loads(text)):
        raise AssertionError(f"{value!r:.200} instead of {expected!r:.200}")
    return True


def _require_position(rejected: InputRejected) -> None:
    problem = rejected.problem
    if not problem.reason or (problem.line or 0) < 1 or (problem.column or 0) < 1:
        raise AssertionError(f"rejected without reason or position: {problem}")


def check_lines(text: str) -> bool:
    """Read output in two chunks; compare the lines with the decoded text, and check their stored form."""
    data = text.encode("utf-8", "surrogatepass")
    reader, middle = MaskedLineReader(MASK), len(data) // 2
    lines = [*reader.feed(data[:middle]), *reader.feed(data[middle:]), *reader.end()]
    *ended, rest = data.decode("utf-8", "replace").replace("\r\n", "\n").split("\n")
    expected = [*(line.removesuffix("\r") for line in ended), *([rest] if rest else [])]
    if lines != expected and max(map(len, expected)) <= MAX_LINE_BYTES:
        raise AssertionError(f"{lines!r:.200} instead of {expected!r:.200}")
    for line in MASK.mask_lines(lines):
        _check_stored(truncate_text(sanitize_text(line)))
    return True


def _check_stored(line: str) -> None:
    if SECRET in line or "\0" in line or "\n" in line or len(line.encode()) > MAX_LINE_BYTES + 100:
        raise AssertionError(f"stored: {line!r:.200}")
    if sanitize_text(line) != line:
        raise AssertionError(f"changed when sanitized again: {line!r:.200}")


PARSERS: Final = {
    "expressions": Parser(
        ("<+infra.cluster>", "a <+variables.a> b <+infra.count>", "<+variables.list>", "<+variables.long>"),
        ("<+", ">", "<", "+", ".", "infra", "cluster", "variables", "a", "is_on", "long", "[0]", "()"),
        8_192,
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
        32_768,
        check_yaml,
    ),
    "JSON": Parser(
        ('{"a": [1, -2.5e3, true, null], "b": {"c": "d"}}', '[{"x": "\\u00e9\\n"}, []]', '"text"'),
        ("{", "}", "[", "]", ",", ":", '"a"', "true", "null", "NaN", "1.5", "1e5", "//", "\\u", "0"),
        32_768,
        check_json,
    ),
    "log lines": Parser(
        ("one\ntwo\r\nthree", "\x1b[31mred\x1b[0m\n", f"key={SECRET}\n", "a" * 1_500),
        ("\x1b[1m", "\x1b]8;;http://x\x07", "\r\n", "b" * 1_000, "\x9b", "\x08", SECRET, SECRET[:9]),
        65_536,
        check_lines,
    ),
}  # fmt: skip


@dataclass
class Result:
    """Accepted inputs, the number of failures, and the first failures with their inputs."""

    accepted: int = 0
    failed: int = 0
    failures: list[str] = field(default_factory=list)

    def add_failure(self, reason: str, text: str) -> None:
        """Count a failure."""
        self.failed += 1
        if len(self.failures) < KEPT_FAILURES:
            self.failures.append(f"{reason}: {text[:LONGEST_INPUT]!r}")

    def add(self, other: "Result") -> None:
        """Add the result of another batch."""
        self.accepted += other.accepted
        self.failed += other.failed
        self.failures = [*self.failures, *other.failures][:KEPT_FAILURES]


def report() -> Iterator[str | Figure]:
    """Fuzz each parser on all cores, and print the first failures."""
    yield f"seed {SEED}, {INPUTS:,} inputs for each parser"
    for name in PARSERS:
        began = time.monotonic()
        yield from _describe(name, _fuzz(name), time.monotonic() - began)
    began = time.monotonic()
    yield from _describe("ANSI escapes", _fuzz_browser(), time.monotonic() - began)


def _fuzz(name: str) -> Result:
    total = Result()
    counts = [min(BATCH, INPUTS - start) for start in range(0, INPUTS, BATCH)]
    with ProcessPoolExecutor(initializer=gc.freeze) as pool:
        batches = [
            pool.submit(fuzz_batch, name, f"{SEED} {name} {number}", count)
            for number, count in enumerate(counts)
        ]
        for number, batch in enumerate(batches):
            try:
                total.add(batch.result())
            except BrokenProcessPool as exc:
                total.add_failure(f"a process ended: {exc}", f"batch {number} or one beside it")
    if not total.accepted:
        total.add_failure("nothing was accepted", "")
    return total


def _describe(name: str, result: Result, seconds: float) -> Iterator[str | Figure]:
    yield Figure("R9 inputs", INPUTS / 1_000_000, name)
    yield Figure("R9 failures", result.failed, name)
    share = result.accepted / INPUTS
    yield f"  {name}: {result.failed} failures; {share:.0%} accepted, the rest rejected; {seconds:.0f} s"
    yield from (f"    {failure}" for failure in result.failures)


def fuzz_batch(name: str, seed: str, count: int) -> Result:
    """Give a parser `count` inputs, always the same ones for a seed."""
    parser, rng = PARSERS[name], random.Random(seed)
    result, text = Result(), ""
    signal.signal(signal.SIGPROF, _interrupt)
    for number in range(1, count + 1):
        text = mutate(rng, parser, text if number % MUTATIONS else rng.choice(parser.samples))
        is_long = number % LONG_INTERVAL == 0
        _check_input(parser, text * (parser.longest // (len(text) + 1)) if is_long else text, result)
    return result


def _interrupt(_number: int, _frame: object) -> None:
    raise TimeoutError("interrupted")


def _check_input(parser: Parser, text: str, result: Result) -> None:
    began = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, LONGEST_SECONDS * 10)
    try:
        result.accepted += parser.check(text)
    except Exception as exc:  # noqa: BLE001  -- each error except a rejection is a failure of the parser
        result.add_failure(f"{type(exc).__name__}: {str(exc)[:400]!r}", text)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    if (seconds := time.process_time() - began) > LONGEST_SECONDS:
        result.add_failure(f"{seconds:.2f} s for {len(text):,} characters", text)


def mutate(rng: random.Random, parser: Parser, text: str) -> str:
    """Return a text with a slice removed, tripled or replaced, or with a token or a sample inserted."""
    first = rng.randrange(len(text) + 1)
    last = min(len(text), first + 1 + rng.randrange(11))
    kind = rng.randrange(6)
    if kind == 0:
        inserted = ""
    elif kind == 1:
        inserted = text[first:last] * 3
    elif kind == 2:
        inserted = rng.choice(HOSTILE_TOKENS)
    elif kind == 3:
        inserted, last = rng.choice(parser.samples), first
    else:
        inserted = rng.choice(parser.tokens)
        last = first if kind == 4 else last
    return (text[:first] + inserted + text[last:])[:LONGEST_INPUT]


# Xorshift, as Math.random takes no seed. Pieces of the class sym stand for control characters.
_FUZZ_SCRIPT: Final = r"""async ([address, count, seed, tokens, longest, mutations, milliseconds, kept]) => {
    const { parse, plain } = await import(address);
    const SEQUENCES = /\x1b\[[0-?]*[ -\/]*[@-~]|\x1b\][^\x07\x1b\ufffd]*([\x07\ufffd]|\x1b\\)/g;
    const CONTROLS = /[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;
    const CLASSES = /^((a\d|a1[0-5]|b|i|u)( (?!$)|$))*$/;
    let state = seed;
    const choose = (most) => {
        state ^= state << 13; state ^= state >>> 17; state ^= state << 5;
        return (state >>> 0) % most;
    };
    const check = (text) => {
        const began = performance.now();
        const pieces = parse(text);
        if (performance.now() - began > milliseconds) throw new Error("slow");
        const visible = pieces.filter((piece) => piece.css !== "sym");
        const expected = text.replace(SEQUENCES, "").replace(CONTROLS, "");
        if (visible.map((piece) => piece.text).join("") !== expected) throw new Error("another text");
        if (!visible.every((piece) => CLASSES.test(piece.css))) throw new Error("an unknown class");
        const shown = pieces.map((piece) => piece.text).join("");
        if (shown.search(CONTROLS) >= 0) throw new Error("a control character");
        if (plain(text) !== shown || plain(shown) !== shown) throw new Error("another plain text");
    };
    const failures = [];
    let failed = 0;
    let text = "";
    for (let number = 0; number < count; number += 1) {
        if (number % mutations === 0) text = "one \x1b[1;31mtwo\x1b[0m three";
        const at = choose(text.length + 1);
        const token = tokens[choose(tokens.length)];
        text = (text.slice(0, at) + token + text.slice(at + choose(6))).slice(0, longest);
        try {
            check(text);
        } catch (error) {
            failed += 1;
            if (failures.length < kept) failures.push([String(error), text]);
        }
    }
    return [failed, failures];
}"""
_ANSI_TOKENS: Final = (
    "\x1b[", "\x1b]", "m", ";", ":", "38;5;", "48;2;1;2;3", "0", "31", "97", "\x1b[K", "\x07", "\x1b\\",
    "\x9b", "\ufffd", "\u061c", "\u2028", "\u202e", "\u2066", "\ufeff", "<b>", "\0", "\t", "\n", "é",
    "😀", "\ud800", "a" * 50,
)  # fmt: skip


class NoBrowser(RuntimeError):
    """There is no Chromium for the parser that runs in the browser."""


def _fuzz_browser() -> Result:
    """Fuzz the parser of a log's ANSI escapes. Raises `NoBrowser`."""
    program = find_chromium()
    if program is None:
        raise NoBrowser("Install Chromium (apt-get install chromium) to fuzz the parser of the browser.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(SWITCHES))
        try:
            return fuzz_script(browser.new_page(), ANSI_SCRIPT.read_text(), INPUTS)
        finally:
            browser.close()


def fuzz_script(page: Any, script: str, count: int) -> Result:
    """Fuzz a script with the functions of `ansi.js`; all inputs without a failure count as accepted."""
    address = f"data:text/javascript;base64,{base64.b64encode(script.encode()).decode()}"
    total = Result()
    for start in range(0, count, BATCH):
        seed = (SEED + start) % 2**31 or 1
        size = min(BATCH, count - start)
        limits = [LONGEST_INPUT, MUTATIONS, LONGEST_SECONDS * 1000, KEPT_FAILURES]
        failed, failures = page.evaluate(_FUZZ_SCRIPT, [address, size, seed, _ANSI_TOKENS, *limits])
        total.accepted += size - failed
        total.failed += failed
        total.failures += [f"{reason}: {text!r}" for reason, text in failures]
    return total
