// Tells whoever has the fleet's page open that an approval was asked for or answered since it was made. Only that is
// asked for, of Airflow's database: the page itself reads the folders of every cluster, and is loaded by a click.
"use strict";
(() => {
  const line = document.getElementById("newer");

  const ask = async () => {
    if (!document.hidden) {
      try {
        const answer = await fetch(line.dataset.url, { cache: "no-store", credentials: "same-origin" });
        if (answer.ok) line.hidden = (await answer.text()) === line.dataset.known;
      } catch {
        // Airflow is away: what is shown stays as it is, and says of when it is.
      }
    }
    again();
  };

  const again = () => window.setTimeout(ask, Number(line.dataset.seconds) * 1000);
  again();
})();
