// What every page has: times, dialogs, shortcuts, theme, and lists that refresh themselves.

import { keepBadges } from "./badge.js";
import { wireDialogs } from "./dialogs.js";
import { wireKeys } from "./keys.js";
import { keepFresh } from "./refresh.js";
import { wireScopes } from "./scopes.js";
import { wireTheme } from "./theme.js";
import { keepTime } from "./times.js";

keepBadges();
keepTime();
wireDialogs();
wireKeys();
wireScopes();
wireTheme();
keepFresh();
