// What Sphinx's search puts first: pages that say what something does, before decisions, which say why, and before evidence.
var Scorer = {
  score: ([docname, , , , score]) => (/^docs\/(decisions|evidence)\//.test(docname) ? score - 100 : score),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
