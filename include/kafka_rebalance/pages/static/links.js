// In Airflow, the page is in an iframe that may not navigate the window around it. A link to one of Airflow's own pages
// would open inside the frame. So this script clicks it in the window's document instead, which has the same origin.
"use strict";
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-airflow]");
  if (!link || window.parent === window) return;
  if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  const outside = window.parent.document.createElement("a");
  outside.href = link.href;
  outside.hidden = true;
  window.parent.document.body.append(outside);
  outside.click();
  outside.remove();
});
