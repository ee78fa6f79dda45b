// What every page has: times, dialogs, shortcuts, theme, and parts that are read again when they change.

import { keepBadges } from "./badge.js";
import { wireDialogs } from "./dialogs.js";
import { wireKeys } from "./keys.js";
import { showWhereYouAre } from "./nav.js";
import { keepFresh } from "./news.js";
import { wireScopes } from "./scopes.js";
import { tendSwaps } from "./swaps.js";
import { wireTheme } from "./theme.js";
import { keepTime } from "./times.js";

keepBadges();
keepTime();
wireDialogs();
wireKeys();
wireScopes();
wireTheme();
showWhereYouAre();
tendSwaps();
keepFresh();
