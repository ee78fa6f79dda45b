// Separator between two panes, moved by pointer or arrow keys.

const SETTING = "slipway.steps";
const LEAST = 220;
const MOST = 640;
const STRIDE = 24;

export function wireSplitter(separator) {
  const grid = separator.parentElement;
  const set = (width) => {
    const pixels = Math.round(Math.min(MOST, Math.max(LEAST, width)));
    grid.style.setProperty("--steps", `${pixels}px`);
    separator.setAttribute("aria-valuenow", String(pixels));
    localStorage.setItem(SETTING, String(pixels));
  };
  const now = () => Number(separator.getAttribute("aria-valuenow"));
  const stored = Number(localStorage.getItem(SETTING));
  if (stored) set(stored);
  separator.addEventListener("keydown", (event) => {
    const width = { ArrowLeft: now() - STRIDE, ArrowRight: now() + STRIDE, Home: LEAST, End: MOST }[event.key];
    if (width === undefined) return;
    event.preventDefault();
    set(width);
  });
  separator.addEventListener("pointerdown", (event) => {
    separator.setPointerCapture(event.pointerId);
    const left = grid.getBoundingClientRect().left;
    const move = (moved) => set(moved.clientX - left);
    separator.addEventListener("pointermove", move);
    separator.addEventListener("lostpointercapture", () => separator.removeEventListener("pointermove", move), { once: true });
  });
}
