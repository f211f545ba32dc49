// Brings the first page up to date while it is looked at. Everything can be read without it.
(() => {
  const place = document.querySelector("[data-live]");
  const state = document.querySelector("[data-live-state]");
  if (!place || !window.EventSource) return;
  const say = (what, words) => {
    if (state.textContent !== words) state.textContent = words;
    state.dataset.state = what;
  };
  const show = (event) => {
    const focused = place.contains(document.activeElement) ? document.activeElement.id : "";
    place.innerHTML = event.data;
    if (focused) document.getElementById(focused)?.focus();
    say("live", "live");
  };
  let source = null;
  const open = () => {
    source = new EventSource(place.dataset.live);
    source.addEventListener("now", show);
    source.addEventListener("trouble", (event) => say("lost", "The data below may be old: " + event.data));
    source.onerror = () => {
      const over = source.readyState === EventSource.CLOSED;
      say("lost", over ? "No longer live: reload the page. Your session may have ended."
                       : "Connection lost: the data below may be old. Reconnecting…");
    };
  };
  // A hidden page keeps no connection.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { source?.close(); source = null; } else if (!source) open();
  });
  if (!document.hidden) open();
})();
