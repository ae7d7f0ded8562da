"""`make house`: figures of the package that a person judges. Nothing here fails.

Counted is `include/kafka_rebalance` without `local_cluster`. A name has one user if only one other module takes it, and
a module one importer if only one other module imports it: such a border is worth a question.

`python -m scripts.house questions` prints the paths of all modules, and questions that somebody who has not seen the
code should answer with one of them. `python -m scripts.house answers` prints the answers.
"""

from __future__ import annotations

import ast
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = "kafka_rebalance"
LISTED = 15


@dataclass(frozen=True)
class Module:
    name: str
    lines: int
    import_lines: int
    public: frozenset[str]  # functions and classes without an underscore
    imported: Mapping[str, frozenset[str]]  # by module of the package; an empty set: the module itself


def main() -> None:
    if sys.argv[1:]:
        return ask(sys.argv[1])
    modules = {module.name: module for module in read_modules()}
    code = [module for module in modules.values() if module.lines]
    lines = sum(module.lines for module in code)
    imports = sum(module.import_lines for module in code)
    print(f"{len(code)} modules, {lines:,} lines, {imports / lines:.1%} of them imports")
    sizes = sorted(module.lines for module in code)
    print(f"median {sizes[len(sizes) // 2]} lines\n\nlargest modules")
    for module in sorted(code, key=lambda module: -module.lines)[:LISTED]:
        print(f"{module.lines:7,}  {module.name}")
    print("\nlines of each room")
    rooms: Counter[str] = Counter()
    for module in code:
        rooms[module.name.split(".")[0]] += module.lines
    for room, count in rooms.most_common():
        print(f"{count:7,}  {room}")
    importers, takers = users(modules)
    one_user = [f"{name} <- {next(iter(found))}" for name, found in takers.items() if len(found) == 1]
    public = sum(len(module.public) for module in code)
    print(f"\n{len(one_user)} of {public} public names have one user")
    alone = sorted(f"{name} <- {next(iter(found))}" for name, found in importers.items() if len(found) == 1)
    print(f"\n{len(alone)} modules have one importer")
    for line in alone:
        print(f"         {line}")


def ask(what: str) -> None:
    questions = json.loads((ROOT / "scripts" / "house_questions.json").read_text(encoding="utf-8"))
    if what == "questions":
        print(*sorted(module.name for module in read_modules()), "", sep="\n")
    for number, asked in enumerate(questions, 1):
        print(f"{number}. {asked['question'] if what == 'questions' else asked['module']}")


def read_modules() -> Iterator[Module]:
    folder = ROOT / "include" / PACKAGE
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        if parts[0] == "local_cluster" or path.name == "__init__.py":
            continue
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        yield Module(
            ".".join(parts),
            text.count("\n"),
            sum((node.end_lineno or 0) - node.lineno + 1 for node in ast.walk(tree) if is_import(node)),
            frozenset(
                node.name
                for node in tree.body
                if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
            ),
            imported_by(tree),
        )


def is_import(node: ast.AST) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def imported_by(tree: ast.Module) -> dict[str, frozenset[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
            below = (node.module or "").removeprefix(PACKAGE).lstrip(".")
            for alias in node.names:
                found[below].add(alias.name)
                found[f"{below}.{alias.name}".lstrip(".")] |= set()  # if it is a module
    return {name: frozenset(names) for name, names in found.items()}


def users(modules: Mapping[str, Module]) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Who imports each module, and who takes each public name of it."""
    importers: defaultdict[str, set[str]] = defaultdict(set)
    takers: defaultdict[str, set[str]] = defaultdict(set)
    for user in modules.values():
        for name, names in user.imported.items():
            if name in modules:
                importers[name].add(user.name)
                for taken in names & modules[name].public:
                    takers[f"{name}.{taken}"].add(user.name)
    return dict(importers), dict(takers)


if __name__ == "__main__":
    main()
