"""Small changes to a module, each of which a test should notice."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}


@dataclass(frozen=True)
class Mutant:
    """One change to one module."""

    line: int
    what: str
    source: str
    """The whole changed module."""


def mutants(source: str) -> Iterator[Mutant]:
    """Return every mutant of a module.

    Left out is what no test should be about: docstrings, annotations, decorators, messages.
    """
    tree = ast.parse(source)
    for path in _paths(tree):
        for what, change in _changes(_at(tree, path)):
            mutated = copy.deepcopy(tree)
            node = _at(mutated, path)
            line = getattr(node, "lineno", 0)
            what = f"{what} at {_column(source, node)}"
            _put(mutated, path, change(node))
            yield Mutant(line, what, ast.unparse(ast.fix_missing_locations(mutated)))


Path = tuple[tuple[str, int | None], ...]


def _paths(tree: ast.AST, path: Path = ()) -> Iterator[Path]:
    for field, value in ast.iter_fields(tree):
        if field in ("annotation", "returns", "decorator_list", "type_params", "bases", "keywords_of_class"):
            continue
        items = enumerate(value) if isinstance(value, list) else [(None, value)]
        for index, item in items:
            if isinstance(item, ast.AST):
                here = (*path, (field, index))
                yield here
                if not isinstance(item, ast.JoinedStr | ast.Raise | ast.Assert):
                    yield from _paths(item, here)


def _at(tree: ast.AST, path: Path) -> ast.AST:
    for field, index in path:
        value = getattr(tree, field)
        tree = value if index is None else value[index]
    return tree


def _put(tree: ast.AST, path: Path, node: ast.AST) -> None:
    parent = _at(tree, path[:-1])
    field, index = path[-1]
    if index is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[index] = node


def _changes(node: ast.AST) -> Iterator[tuple[str, object]]:
    if isinstance(node, ast.Compare):
        yield "comparison turned", lambda one: _with(one, ops=[COMPARISONS[type(one.ops[0])](), *one.ops[1:]])
    elif isinstance(node, ast.BoolOp):
        yield (
            "and/or exchanged",
            lambda one: _with(one, op=ast.Or() if isinstance(one.op, ast.And) else ast.And()),
        )
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield "sign or not dropped", lambda one: one.operand
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        yield "operator exchanged", lambda one: _with(one, op=OPERATORS[type(one.op)]())
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield "truth turned", lambda one: ast.Constant(not one.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield "number changed", lambda one: ast.Constant(one.value + 1)
    elif isinstance(node, ast.IfExp):
        yield "branches exchanged", lambda one: _with(one, body=one.orelse, orelse=one.body)
    elif isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
        yield "returns None", lambda one: ast.Return(ast.Constant(None))
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Verdict":
        if node.attr.isupper():
            yield "other verdict", lambda one: _with(one, attr="NEW" if one.attr == "PASS" else "PASS")
    elif isinstance(node, ast.If):
        yield "condition turned", lambda one: _with(one, test=ast.UnaryOp(ast.Not(), one.test))
    elif isinstance(node, ast.Continue | ast.Break):
        yield "jump dropped", lambda _: ast.Pass()


def _column(source: str, node: ast.AST) -> int:
    """Where the node starts in its line, from 1 behind the indentation: so two changes have two names."""
    line = source.splitlines()[getattr(node, "lineno", 1) - 1]
    return int(getattr(node, "col_offset", 0)) - (len(line) - len(line.lstrip())) + 1


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _with(node: ast.AST, **fields: object) -> ast.AST:
    for name, value in fields.items():
        setattr(node, name, value)
    return node
