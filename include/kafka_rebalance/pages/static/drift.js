// Fills the part "drift" with the changes in the cluster since the snapshot. Nothing else on the page waits for it. The
// link in it asks again, and works without this script as well.
"use strict";
(() => {
  const part = () => document.getElementById("drift"); // null once refresh.js has found nothing to compare
  const url = part().dataset.url;
  let left = 6;

  const say = (text) => {
    const note = document.createElement("p");
    note.textContent = text;
    part()?.replaceChildren(part().querySelector("summary"), note, link());
  };

  const link = () => {
    const again = document.createElement("p");
    const to = document.createElement("a");
    to.href = url;
    to.id = "drift-again";
    to.textContent = "Look again";
    again.append(to);
    return again;
  };

  // What would keep the plan from being written has to be read before anything else.
  const warn = (text) => {
    const note = document.getElementById("drift-note");
    if (!note) return;
    note.textContent = text;
    note.hidden = !text;
    if (text) part().open = true;
  };

  const load = async () => {
    if (!part()) return;
    let answer;
    try {
      answer = await fetch(url, { cache: "no-store", credentials: "same-origin" });
    } catch {
      return say("The connection to Airflow is lost, so this page does not know what has changed since the snapshot.");
    }
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("drift");
    if (!fresh) return say(`Airflow answered ${answer.status}, so this page does not know what has changed since the snapshot.`);
    if (!part()) return;
    part().replaceChildren(...[...fresh.childNodes].map((node) => document.adoptNode(node)));
    warn(fresh.dataset.note ?? "");
    left -= 1;
    if (fresh.dataset.again === "yes" && left > 0) window.setTimeout(load, 5000);
  };

  part().addEventListener("click", (event) => {
    if (!event.target.closest("#drift-again")) return;
    event.preventDefault();
    left = 6;
    load();
  });
  load();
})();
