// Navigation on narrow screens: horizontal strips, scrolled to the current page.

import { find } from "./dom.js";

export function scrollToCurrentPage() {
  for (const strip of [find(".nav"), find(".section-tabs")]) {
    const here = strip && find("a[aria-current]", strip);
    if (!here) continue;
    const place = here.getBoundingClientRect();
    strip.scrollLeft += place.left - strip.getBoundingClientRect().left - (strip.clientWidth - place.width) / 2;
  }
}
