// Navigation on narrow screens: a horizontal strip, scrolled to the current page.

import { find } from "./dom.js";

export function scrollToCurrentPage() {
  const strip = find(".nav");
  const here = strip && find("a[aria-current]", strip);
  if (!here) return;
  const place = here.getBoundingClientRect();
  strip.scrollLeft += place.left - strip.getBoundingClientRect().left - (strip.clientWidth - place.width) / 2;
}
