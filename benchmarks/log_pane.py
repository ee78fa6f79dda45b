"""Time of a browser to show 100,000 log lines, compared with a page with a node for each line."""

import statistics
from collections.abc import Iterator
from typing import Any

from playwright.sync_api import Page, sync_playwright

from benchmarks.goals import Figure
from tests.fixtures.chromium import SWITCHES, find_chromium

REPETITIONS = 10
AFTER_PAINT = "new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"
# What the server answers is there already: the clock runs from the data to the painted rows.
SHOWN = f"""async (blocks) => {{
    const began = performance.now();
    window.slipway.pane.addBlocks(blocks);
    await {AFTER_PAINT};
    return performance.now() - began;
}}"""
NAIVE = f"""async (texts) => {{
    const began = performance.now();
    const list = document.createElement("div");
    list.style.cssText = "position:fixed;inset:0;overflow:auto;white-space:pre;font:13px/20px monospace";
    for (const [at, text] of texts.entries()) {{
        const row = document.createElement("div");
        const number = document.createElement("a");
        number.textContent = at + 1;
        const words = document.createElement("span");
        words.textContent = text;
        row.append(number, words);
        list.append(row);
    }}
    document.body.append(list);
    await {AFTER_PAINT};
    const took = performance.now() - began;
    list.remove();
    return took;
}}"""
JUMPS = f"""async () => {{
    const scroller = document.querySelector("[data-log-scroll]");
    const times = [];
    for (let jump = 0; jump < 60; jump += 1) {{
        const began = performance.now();
        scroller.scrollTop = (jump * 7919) % 61 / 61 * scroller.scrollHeight;
        await {AFTER_PAINT};
        times.push(performance.now() - began);
    }}
    return times;
}}"""
# Ten rows each frame, as with a wheel that does not stop.
FRAMES = """async () => {
    const scroller = document.querySelector("[data-log-scroll]");
    const began = performance.now();
    let frames = 0;
    while (performance.now() - began < 3000) {
        scroller.scrollTop -= 200;
        await new Promise(requestAnimationFrame);
        frames += 1;
    }
    return frames * 1000 / (performance.now() - began);
}"""
# The same lines again and again, with numbers that go on.
REPEATED = """async ([blocks, times]) => {
    const count = blocks.reduce((sum, block) => sum + block.texts.length, 0);
    for (let time = 1; time < times; time += 1) {
        const later = blocks.map((block) => ({ ...block, first: block.first + time * count }));
        window.slipway.pane.addBlocks(later);
        await new Promise((done) => setTimeout(done));
    }
    const scroller = document.querySelector("[data-log-scroll]");
    scroller.scrollTop = scroller.scrollHeight;
}"""
SEARCH = """() => {
    const began = performance.now();
    window.slipway.pane.setSearch("99999");
    return performance.now() - began;
}"""


def report(url: str, session: str, execution: str, blocks: list[Any]) -> Iterator[str | Figure]:
    """Open the page of an execution and pass it `blocks` as in the server's answers."""
    program = find_chromium()
    if program is None:
        yield "  no Chromium here: the pane was not measured"
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(SWITCHES))
        context = browser.new_context(viewport={"width": 1280, "height": 800}, bypass_csp=True)
        context.add_cookies([{"name": "slipway", "value": session, "url": url}])
        page = context.new_page()
        page.goto(f"{url}/deployments/{execution}/")
        page.wait_for_function("document.querySelector('[data-connection]').textContent.includes('Live')")
        yield from _measure_page(page, blocks)
        browser.close()


def _measure_page(page: Page, blocks: list[Any]) -> Iterator[str | Figure]:
    texts = [text for block in blocks for text in block["texts"]]
    pane_ms = page.evaluate(SHOWN, blocks)
    jumps = page.evaluate(JUMPS)
    nodes = page.evaluate("document.querySelectorAll('[data-log] *').length")
    search_ms = page.evaluate(SEARCH)
    frames = page.evaluate(FRAMES)
    page.evaluate(REPEATED, [blocks, REPETITIONS])
    frames_of_more = page.evaluate(FRAMES)
    # The last measurement: its nodes would slow down later ones.
    naive = page.evaluate(NAIVE, texts)
    yield f"  {len(texts):,} lines in Chromium, from data to painted rows"
    yield f"    a node for each line: {naive:,.0f} ms; the pane: {pane_ms:,.0f} ms with {nodes:,} nodes"
    yield f"    a jump, painted: median {statistics.median(jumps):.0f} ms, longest {max(jumps):.0f} ms"
    yield f"    a search through all of them: {search_ms:.0f} ms"
    yield f"    frames a second in a scroll: {frames:.0f}; with ten times the lines: {frames_of_more:.0f}"
    yield Figure("P7 frames", frames)
    yield Figure("P7 million", frames_of_more, f"{len(texts) * REPETITIONS:,} lines")
    yield Figure("P7 paint", pane_ms, f"a node for each line {naive:,.0f}")
    yield Figure("P7 nodes", nodes)
    yield Figure("P7 search", search_ms)
