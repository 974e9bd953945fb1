"""The shape of a GraphQL request: which fields with which arguments, whatever their values."""

from __future__ import annotations

from pathlib import Path

from graphql import FieldNode, InlineFragmentNode, OperationDefinitionNode, SelectionSetNode, parse

FILE = Path(__file__).parent / "accepted.txt"
ACCEPTED = frozenset(FILE.read_text(encoding="utf-8").splitlines() if FILE.exists() else ())


def shapes(query: str) -> set[str]:
    """Return the shapes of a request's branches: `host.directory(include,path).id`.

    A field that is asked for again of its own answer counts once: a chain of 50 `withFile` is one.
    """
    found: set[str] = set()
    for definition in parse(query, no_location=True).definitions:
        assert isinstance(definition, OperationDefinitionNode)
        _walk(definition.selection_set, (), found)
    return found


def _walk(selections: SelectionSetNode, above: tuple[str, ...], found: set[str]) -> None:
    for node in selections.selections:
        if isinstance(node, InlineFragmentNode):
            kind = node.type_condition
            assert kind is not None
            _walk(node.selection_set, (*above, f"<{kind.name.value}>"), found)
            continue
        assert isinstance(node, FieldNode)
        names = ",".join(sorted(argument.name.value for argument in node.arguments or ()))
        step = f"{node.name.value}({names})" if names else node.name.value
        path = above if above[-1:] == (step,) else (*above, step)
        if node.selection_set is None:
            found.add(".".join(path))
        else:
            _walk(node.selection_set, path, found)
