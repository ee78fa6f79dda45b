// State of the log pane in the URL: the selected lines and the display options.

// The lines of the hash, else the one that the server was asked for.
export function readHash() {
  const line = new URLSearchParams(location.search).get("line");
  const match = /^#L(\d{1,9})(?:-L?(\d{1,9}))?$/.exec(location.hash || `#L${line}`);
  if (!match) return null;
  const [a, b] = [Number(match[1]), Number(match[2] || match[1])];
  return a > 0 ? [Math.min(a, b), Math.max(a, b)] : null;
}

export function writeHash([first, last]) {
  setQuery({ line: "" });
  history.replaceState(history.state, "", first === last ? `#L${first}` : `#L${first}-L${last}`);
}

export function setQuery(values) {
  const url = new URL(location.href);
  for (const [name, value] of Object.entries(values)) {
    if (value) url.searchParams.set(name, value);
    else url.searchParams.delete(name);
  }
  history.replaceState(history.state, "", url);
}
