// On a narrow screen the navigation is a strip that scrolls sideways: it begins where the reader is.

import { one } from "./dom.js";

export function showWhereYouAre() {
  const strip = one(".nav");
  const here = strip && one("a[aria-current]", strip);
  if (!here) return;
  const place = here.getBoundingClientRect();
  strip.scrollLeft += place.left - strip.getBoundingClientRect().left - (strip.clientWidth - place.width) / 2;
}
