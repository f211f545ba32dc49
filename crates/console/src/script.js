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
    delete place.dataset.stale;
    if (focused) document.getElementById(focused)?.focus();
    say("live", "live");
    keepUp(place.querySelector("[data-needs]"));
  };
  // What cannot be known is not green: neither the list nor the title and the menu.
  const lose = (words) => {
    say("lost", words);
    place.dataset.stale = "";
    tell("?");
  };
  // The title and the menu tell the number, too. The banner comes with the page.
  const keepUp = (needs) => {
    if (!needs) return;
    if (needs.dataset.switches !== document.body.dataset.switches) return location.reload();
    tell(Number(needs.dataset.needs));
  };
  const tell = (number) => {
    const title = document.title.replace(/^\([\d?]+\) /, "");
    const wanted = number ? `(${number}) ${title}` : title;
    if (document.title !== wanted) document.title = wanted;
    const link = document.querySelector("nav a[href='/console/needs-you']");
    let count = link?.querySelector("[data-count]");
    if (!link || (!count && !number)) return;
    if (!count) {
      count = document.createElement("span");
      count.className = "count";
      count.dataset.count = "";
      link.append(" ", count);
    }
    count.textContent = number || "";
    count.hidden = !number;
  };
  let source = null;
  const open = () => {
    source = new EventSource(place.dataset.live);
    source.addEventListener("now", show);
    source.addEventListener("trouble", (event) => lose("The data below may be old: " + event.data));
    source.onerror = () => {
      const over = source.readyState === EventSource.CLOSED;
      lose(over ? "No longer live: reload the page. Your session may have ended."
                : "Connection lost: the data below may be old. Reconnecting…");
    };
  };
  // A hidden page keeps no connection.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { source?.close(); source = null; } else if (!source) open();
  });
  if (!document.hidden) open();
})();
