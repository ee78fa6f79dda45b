// Entry point of every page: timestamps, dialogs, shortcuts, theme, and live parts.

import { startNavigationBadges } from "./navigation-badges.js";
import { wireDialogs } from "./dialogs.js";
import { wireShortcuts } from "./shortcuts.js";
import { scrollToCurrentPage } from "./navigation.js";
import { startLiveTopics } from "./live-topics.js";
import { wireScopeSwitcher } from "./scope-switcher.js";
import { wirePartialUpdates } from "./partial-updates.js";
import { startTimestamps } from "./timestamps.js";

const DOUBLE_CLICK = 3000;

startNavigationBadges();
startTimestamps();
wireDialogs();
wireShortcuts();
wireScopeSwitcher();
scrollToCurrentPage();
wirePartialUpdates();
startLiveTopics();
// What may come a moment later.
requestAnimationFrame(() => import("./theme.js").then((theme) => theme.wireTheme()));
if (document.getElementById("delays")) import("./delays.js");

// A double click starts one thing. A form whose answer is a download can be sent again a moment later.
let sent = {};
addEventListener("pageshow", () => { sent = {}; });
// On the window, so that every other listener has decided before.
addEventListener("submit", (event) => {
  const { target: form, timeStamp: at } = event;
  if (event.defaultPrevented || form.getAttribute("method") !== "post") return;
  if (form === sent.form && at - sent.at < DOUBLE_CLICK) event.preventDefault();
  else sent = { form, at };
});
