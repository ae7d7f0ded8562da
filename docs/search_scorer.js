// What Sphinx's search puts first. Decisions say why something is as it is, so pages that say what it does come before them.
var Scorer = {
  score: ([docname, , , , score]) => (docname.startsWith("docs/decisions/") ? score - 100 : score),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
