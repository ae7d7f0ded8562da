// Fetches a part of the page when the reader opens its <details>, and keeps searches, groups and pages inside it.
// Without this script, and on a part's own page, the same links and forms open pages.
"use strict";
(() => {
  const asked = new WeakMap(); // place: its pending request

  const show = async (place, url, again) => {
    asked.get(place)?.abort();
    const request = new AbortController();
    asked.set(place, request);
    place.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(url, { cache: "no-store", credentials: "same-origin", signal: request.signal });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const found = page.querySelector("[data-answer]") ?? page.querySelector("main");
      if (!found) throw new Error(`Airflow answered ${answer.status}. Reload the page; log in again if it asks for it.`);
      place.replaceChildren(...[...found.childNodes].map((node) => document.adoptNode(node)));
    } catch (wrong) {
      if (wrong.name === "AbortError") return;
      const note = document.createElement("p");
      note.className = "problem";
      note.setAttribute("role", "alert");
      note.textContent = `This part could not be loaded: ${wrong.message}`;
      place.prepend(note);
    }
    place.removeAttribute("aria-busy");
    // After a search the reader goes on typing; after a change of page, the reader goes on in the table.
    if (again) place.querySelector(again)?.focus({ preventScroll: true });
    place.dispatchEvent(new CustomEvent("shown", { bubbles: true }));
  };

  document.addEventListener("toggle", ({ target }) => {
    if (!target.open || !target.dataset?.load || target.dataset.loaded) return;
    target.dataset.loaded = "yes";
    show(target.querySelector("[data-place]"), target.dataset.load, "");
  }, true);

  document.addEventListener("submit", (event) => {
    const place = event.target.matches("[data-stay]") && event.target.closest("details [data-place]");
    if (!place) return;
    event.preventDefault();
    show(place, `${event.target.action}?${new URLSearchParams(new FormData(event.target))}`, "input[type=search]");
  });

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-stay]");
    const place = link?.closest("details [data-place]");
    if (!place || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    show(place, link.href, ".scroll");
  });
})();
