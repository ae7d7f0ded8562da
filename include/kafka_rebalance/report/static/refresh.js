// Keeps a page that is left open up to date: the progress of a reassignment, and an answer that somebody has given. Only
// what differs is changed, in the elements that are there: scroll, focus, what is open, what was fetched and what is
// selected stay with the reader. A page that has come to be about another plan is not made a different one under the
// reader's hands: where the run stands is told, and a link leads to the rest.
"use strict";
(() => {
  const live = () => document.getElementById("live");
  const about = live().dataset.about;
  let known = ""; // of the page as it is shown here: unchanged, it is not sent again
  let timer = 0; // 0: the page is being asked for, or nothing will change any more

  const say = (text) => {
    const note = document.getElementById("refresh-note");
    if (note && note.textContent !== text) note.textContent = text;
  };

  // Somebody is about to copy a name: text that changes under a selection would take it away.
  const isSelecting = () => {
    const selection = document.getSelection();
    return selection && !selection.isCollapsed && live().contains(selection.anchorNode);
  };

  // Of these, this page's script or the reader has made what they are.
  const isTheirOwn = (node) => node.id === "refresh-note" || node.id === "drift" || node.dataset.loaded === "yes";

  const mend = (old, fresh) => {
    if (old.nodeType === Node.TEXT_NODE) {
      if (old.data !== fresh.data) old.data = fresh.data;
      return;
    }
    if (old.nodeType !== Node.ELEMENT_NODE || isTheirOwn(old)) return;
    const isOpenToReader = old.nodeName === "DETAILS";
    for (const { name } of [...old.attributes]) {
      if (!fresh.hasAttribute(name) && !(isOpenToReader && name === "open")) old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      if (old.getAttribute(name) !== value && !(isOpenToReader && name === "open")) old.setAttribute(name, value);
    }
    mendChildren(old, fresh);
  };

  // Blocks are told apart by what they are called, so that an anomaly or a section that comes or goes does not turn
  // what follows it into something else; rows, items and texts by their place.
  const key = (node) => {
    if (node.nodeType !== Node.ELEMENT_NODE) return String(node.nodeType);
    if (node.id) return `${node.nodeName} #${node.id}`;
    const hasTitle = node.nodeName === "DETAILS" || node.nodeName === "SECTION";
    const title = hasTitle ? node.querySelector("summary, h2")?.textContent.replace(/\d+/g, "") : "";
    return `${node.nodeName} ${node.getAttribute("aria-label") || node.className} ${title}`;
  };

  // The child from `next` on that becomes `wanted`; null where there is none before one that is kept for later.
  const counterpart = (next, wanted, kept) => {
    for (let node = next; node; node = node.nextSibling) {
      if (key(node) === key(wanted)) return node;
      if (wanted.nodeType !== Node.ELEMENT_NODE || kept.has(key(node))) return null;
    }
    return null;
  };

  const mendChildren = (old, fresh) => {
    const kept = new Set([...fresh.children].map(key));
    let next = old.firstChild;
    const dropUntil = (end) => {
      while (next !== end) {
        const gone = next;
        next = next.nextSibling;
        gone.remove();
      }
    };
    for (const wanted of [...fresh.childNodes]) {
      const found = counterpart(next, wanted, kept);
      if (found) {
        dropUntil(found);
        mend(found, wanted);
        next = found.nextSibling;
      } else {
        old.insertBefore(document.importNode(wanted, true), next);
      }
    }
    dropUntil(null);
  };

  const offerTheRest = () => {
    if (document.getElementById("newer")) return;
    const line = document.createElement("p");
    const link = document.createElement("a");
    line.id = "newer";
    line.className = "ask";
    line.setAttribute("role", "status");
    link.href = window.location.pathname + window.location.search;
    link.textContent = "Show it as it is now";
    line.append("The plan on this page is no longer the one that the run is about. ", link);
    document.querySelector("main").prepend(line);
  };

  const refresh = async () => {
    timer = 0;
    if (document.hidden) return again();
    let answer;
    try {
      const headers = known ? { "If-None-Match": known } : {};
      answer = await fetch(window.location.href, { cache: "no-store", credentials: "same-origin", headers });
    } catch {
      say("The connection to Airflow is lost; this is not up to date. Trying again.");
      return again();
    }
    if (answer.status === 401 || answer.status === 403) {
      return say("You are no longer logged in; this is not up to date. Reload the page after logging in.");
    }
    if (answer.status === 304) {
      say(live().dataset.note);
      return again();
    }
    if (!answer.ok) {
      say(`Airflow answered ${answer.status}; this is not up to date. Trying again.`);
      return again();
    }
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("live");
    if (!fresh) {
      offerTheRest();
      return again();
    }
    if (isSelecting()) {
      say("Waits with the update while text is selected here.");
      return again();
    }
    if (fresh.dataset.about === about) {
      mend(document.querySelector("main"), page.querySelector("main"));
    } else if (!about) {
      return window.location.reload(); // there was no plan yet to read in
    } else {
      for (const part of ["standing", "live"]) mend(document.getElementById(part), page.getElementById(part));
      offerTheRest();
    }
    known = answer.headers.get("ETag") ?? "";
    say(live().dataset.note);
    if (live().dataset.live === "yes") again();
  };

  const again = () => {
    timer = window.setTimeout(refresh, Number(live().dataset.seconds) * 1000);
  };

  document.addEventListener("visibilitychange", () => {
    if (document.hidden || !timer) return;
    window.clearTimeout(timer);
    refresh();
  });
  say(live().dataset.note);
  again();
})();
