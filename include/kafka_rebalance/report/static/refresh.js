// Brings the part "live" up to date while a reassignment runs, and touches nothing else of the page: whoever reads a
// table or has a detail open keeps the place. When the run is over the page is loaded once more, in full.
"use strict";
(() => {
  const live = () => document.getElementById("live");
  const seconds = Number(live().dataset.seconds);

  const say = (text) => {
    const note = document.getElementById("refresh-note");
    if (note && note.textContent !== text) note.textContent = text;
  };

  const refresh = async () => {
    if (document.hidden) return again();
    let answer;
    try {
      answer = await fetch(window.location.href, { cache: "no-store", credentials: "same-origin" });
    } catch {
      say("The connection to Airflow is lost; this is not up to date. Trying again.");
      return again();
    }
    if (answer.status === 401 || answer.status === 403) {
      return say("You are no longer logged in; this is not up to date. Reload the page after logging in.");
    }
    if (!answer.ok) {
      say(`Airflow answered ${answer.status}; this is not up to date. Trying again.`);
      return again();
    }
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("live");
    if (!fresh || fresh.dataset.live !== "yes" || (fresh.children.length > 0) !== (live().children.length > 0)) {
      return window.location.reload();
    }
    const boxes = [...live().querySelectorAll(".scroll")].map((box) => [box.scrollLeft, box.scrollTop]);
    if (fresh.innerHTML !== live().dataset.shown) {
      live().dataset.shown = fresh.innerHTML;
      live().replaceChildren(...[...fresh.childNodes].map((node) => document.adoptNode(node)));
      live().querySelectorAll(".scroll").forEach((box, at) => {
        if (boxes[at]) [box.scrollLeft, box.scrollTop] = boxes[at];
      });
    }
    say(`Updates every ${seconds} s.`);
    again();
  };

  const again = () => window.setTimeout(refresh, seconds * 1000);
  say(`Updates every ${seconds} s.`);
  again();
})();
