// Entry point of every page: timestamps, dialogs, shortcuts, theme, and live parts.

import { startNavigationBadges } from "./navigation-badges.js";
import { wireDialogs } from "./dialogs.js";
import { wireShortcuts } from "./shortcuts.js";
import { scrollToCurrentPage } from "./navigation.js";
import { startLiveTopics } from "./live-topics.js";
import { wireScopeSwitcher } from "./scope-switcher.js";
import { wirePartialUpdates } from "./partial-updates.js";
import { startTimestamps } from "./timestamps.js";

startNavigationBadges();
startTimestamps();
wireDialogs();
wireShortcuts();
wireScopeSwitcher();
scrollToCurrentPage();
wirePartialUpdates();
startLiveTopics();
// What may come a moment later.
requestAnimationFrame(() => {
  import("./double-clicks.js");
  import("./failed-updates.js");
  import("./theme.js").then((theme) => theme.wireTheme());
});
if (document.getElementById("delays")) import("./delays.js");
