// Socket of delegate changes with growing pauses between reconnects; without it the page polls.

const LOOK_EVERY = 5000;
const LONGEST_WAIT = 15_000;
const GONE = new Set([4401, 4403, 4404]);

// `onChange` gets [{id, name, scope, status, row}], status null for what is no more; `onLook` says that something
// may have been missed; `onStatus` gets "live", "reconnecting", "polling" or "gone".
export function watchDelegates({ onChange, onLook, onStatus }) {
  const address = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws/delegates/`;
  let failures = 0;
  let timer = 0;

  function connect() {
    clearTimeout(timer);
    timer = 0;
    const socket = new WebSocket(address);
    socket.addEventListener("message", ({ data }) => {
      const message = JSON.parse(data);
      if (message.type === "watching") {
        failures = 0;
        onStatus("live");
        onLook();
      } else if (message.type === "delegates") onChange(message.changed);
    });
    socket.addEventListener("close", ({ code }) => {
      if (GONE.has(code)) {
        failures = -1;
        onStatus("gone");
        return;
      }
      failures += 1;
      onStatus(failures > 2 ? "polling" : "reconnecting");
      const longest = Math.min(LONGEST_WAIT, 400 * 2 ** failures);
      timer = setTimeout(connect, longest * (0.5 + Math.random() / 2));
    });
  }

  connect();
  setInterval(() => failures > 2 && !document.hidden && onLook(), LOOK_EVERY);
  addEventListener("online", () => timer && connect());
  document.addEventListener("visibilitychange", () => !document.hidden && timer && connect());
}

export const WORDS = { live: "Live", reconnecting: "Reconnecting…", polling: "Looks every 5 s", gone: "Not live: sign in again" };
