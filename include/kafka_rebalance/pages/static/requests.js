// Tells a reader of the clusters' page that somebody has asked for an approval or answered one since. It asks only for
// that, from Airflow's database. The page itself reads the folders of every cluster, so only a click loads it again.
"use strict";
(() => {
  const line = document.getElementById("newer");

  const ask = async () => {
    if (!document.hidden) {
      try {
        const answer = await fetch(line.dataset.url, { cache: "no-store", credentials: "same-origin" });
        if (answer.ok) line.hidden = (await answer.text()) === line.dataset.known;
      } catch {
        // Airflow does not answer: the page stays as it is, and shows its time.
      }
    }
    again();
  };

  const again = () => window.setTimeout(ask, Number(line.dataset.seconds) * 1000);
  again();
})();
