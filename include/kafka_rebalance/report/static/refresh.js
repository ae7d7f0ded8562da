// Brings where the run stands and the part "live" up to date while a reassignment runs, and touches nothing else. Only what differs
// is changed, in the elements that are there: scroll, focus, what is open and what is selected stay with the reader.
// When the run is over the page is loaded once more, in full.
"use strict";
(() => {
  const live = () => document.getElementById("live");
  const seconds = Number(live().dataset.seconds);

  const say = (text) => {
    const note = document.getElementById("refresh-note");
    if (note && note.textContent !== text) note.textContent = text;
  };

  // Somebody is about to copy a name: text that changes under a selection would take it away.
  const isSelecting = () => {
    const selection = document.getSelection();
    return selection && !selection.isCollapsed && live().contains(selection.anchorNode);
  };

  const mend = (old, fresh) => {
    if (old.nodeType === Node.TEXT_NODE) {
      if (old.data !== fresh.data) old.data = fresh.data;
      return;
    }
    if (old.nodeType !== Node.ELEMENT_NODE || old.id === "refresh-note") return;
    const isOpenToReader = old.nodeName === "DETAILS";
    for (const { name } of [...old.attributes]) {
      if (!fresh.hasAttribute(name) && !(isOpenToReader && name === "open")) old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      if (old.getAttribute(name) !== value && !(isOpenToReader && name === "open")) old.setAttribute(name, value);
    }
    mendChildren(old, fresh);
  };

  // Blocks are told apart by what they are called, so that an anomaly that comes or goes does not turn a table into
  // another one; rows, items and texts by their place.
  const key = (node) => {
    if (node.nodeType !== Node.ELEMENT_NODE) return String(node.nodeType);
    const name = node.id || node.getAttribute("aria-label") || node.className;
    const title = node.nodeName === "DETAILS" ? node.querySelector("summary").textContent.replace(/\d+/g, "") : "";
    return `${node.nodeName} ${name} ${title}`;
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
    if (isSelecting()) {
      say("Waits with the update while text is selected here.");
      return again();
    }
    mend(document.getElementById("standing"), page.getElementById("standing"));
    mend(live(), fresh);
    say(`Updates every ${seconds} s.`);
    again();
  };

  const again = () => window.setTimeout(refresh, seconds * 1000);
  say(`Updates every ${seconds} s.`);
  again();
})();
