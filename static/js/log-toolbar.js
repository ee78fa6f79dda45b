// Controls above and below the log; each one calls the pane.

import { icon } from "./dom.js";

function wireSearch(pane) {
  const input = pane.part("search");
  input.addEventListener("input", () => pane.setSearch(input.value));
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") {
      event.preventDefault();
      pane.moveHit(event.shiftKey ? -1 : 1);
    }
    if (event.key === "Escape") {
      input.value = "";
      pane.setSearch("");
      pane.scroller.focus();
    }
  });
  pane.part("case").addEventListener("click", (event) => {
    const button = event.currentTarget;
    button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true"));
    pane.setSearch(input.value);
  });
  pane.part("next").addEventListener("click", () => pane.moveHit(1));
  pane.part("previous").addEventListener("click", () => pane.moveHit(-1));
}

function wireFull(pane) {
  const button = pane.part("full");
  const set = (on) => {
    pane.root.classList.toggle("full", on);
    button.setAttribute("aria-pressed", String(on));
    button.replaceChildren(icon(on ? "close" : "full"));
    pane.view.queue();
  };
  button.addEventListener("click", () => set(!pane.root.classList.contains("full")));
  pane.root.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && pane.root.classList.contains("full")) set(false);
  });
}

export function wireToolbar(pane) {
  wireSearch(pane);
  wireFull(pane);
  pane.part("time").addEventListener("click", () => pane.changeTime());
  pane.part("wrap").addEventListener("click", () => pane.setWrap(!pane.wrap));
  for (const select of pane.filter.selects) select.addEventListener("change", () => {
    pane.setFilter();
    if (!pane.display.follow) pane.scroller.scrollTop = 0;
  });
  pane.part("follow").addEventListener("click", () => pane.follow(!pane.display.follow));
  pane.part("more").addEventListener("click", () => pane.follow(true));
  pane.part("read").addEventListener("click", () => pane.readLast());
  pane.part("copy").addEventListener("click", async (event) => {
    const button = event.currentTarget;
    const { copyLines } = await import("./log-copy.js");
    if (await copyLines(pane)) {
      button.replaceChildren(icon("check"));
      setTimeout(() => button.replaceChildren(icon("copy")), 1200);
    }
  });
}
