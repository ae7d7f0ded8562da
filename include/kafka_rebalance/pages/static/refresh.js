// Keeps an open page up to date: the progress of a reassignment, and an answer that somebody has given. It changes only
// what differs, in the existing elements. So the reader keeps scroll, focus, open and fetched parts, and the selection.
// If the run is now about another plan, the script updates only the state of the run, and a link leads to the rest.
"use strict";
(() => {
  const live = () => document.getElementById("live");
  const about = live().dataset.about;
  let known = ""; // the tag of the page as shown: the server does not send the same page again
  let timer = 0; // 0: a request is pending, or nothing will change any more

  const say = (text) => {
    const note = document.getElementById("refresh-note");
    if (note && note.textContent !== text) note.textContent = text;
  };

  // The reader may be about to copy a name. Text that changes under a selection would remove it.
  const isSelecting = () => {
    const selection = document.getSelection();
    return selection && !selection.isCollapsed && live().contains(selection.anchorNode);
  };

  // The content of these nodes comes from a script of this page, or from the reader.
  const isTheirOwn = (node) => ["refresh-note", "drift", "drift-note"].includes(node.id) || node.dataset.loaded === "yes";

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

  // Blocks are matched by name, so that a finding or a section that appears or disappears does not change the blocks
  // after it. Rows, items and texts are matched by place.
  const key = (node) => {
    if (node.nodeType !== Node.ELEMENT_NODE) return String(node.nodeType);
    if (node.id) return `${node.nodeName} #${node.id}`;
    const hasTitle = node.nodeName === "DETAILS" || node.nodeName === "SECTION";
    const title = hasTitle ? (node.querySelector("h2") ?? node.querySelector("summary"))?.textContent.replace(/\d+/g, "") : "";
    return `${node.nodeName} ${node.getAttribute("aria-label") || node.className} ${title}`;
  };

  // The child from `next` on that becomes `wanted`; null if there is none before a child that is kept for later.
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
    link.textContent = "Show the run as it is now";
    line.append("The run now has another plan than this page shows. ", link);
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
      say("The connection to Airflow is lost. This page is not up to date; it tries again.");
      return again();
    }
    if (answer.status === 401 || answer.status === 403) {
      return say("You are no longer logged in. This page is not up to date. Log in and reload it.");
    }
    if (answer.status === 304) {
      say(live().dataset.note);
      return again();
    }
    if (!answer.ok) {
      say(`Airflow answered ${answer.status}. This page is not up to date; it tries again.`);
      return again();
    }
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("live");
    if (!fresh) {
      offerTheRest();
      return again();
    }
    if (isSelecting()) {
      say("The page does not update while you have text selected here.");
      return again();
    }
    if (fresh.dataset.about === about) {
      mend(document.querySelector("main"), page.querySelector("main"));
    } else if (!about) {
      return window.location.reload(); // the page showed no plan yet
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
