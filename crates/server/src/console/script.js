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
    source.addEventListener("trouble", (event) => say("lost", "What is below may be old: " + event.data));
    source.onerror = () => {
      const over = source.readyState === EventSource.CLOSED;
      say("lost", over ? "Not live any more: open the page again, your session may have ended."
                       : "Connection lost: what is below may be old. Trying again…");
    };
  };
  // A page that nobody sees keeps no connection.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { source?.close(); source = null; } else if (!source) open();
  });
  if (!document.hidden) open();
})();
