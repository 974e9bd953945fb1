"""Change the program in one place after another, and see which change no test notices.

    nox -s mutation                          everything that pyproject.toml names
    nox -s mutation -- "pipeline.oci.*"      one part
    nox -s mutation -- results               the survivors of the last run
    nox -s mutation -- show MUTANT           what one of them changed

mutmut does the work: it forks a process a mutant, and runs the tests that reach the function. What
is changed here is what a program decides: comparisons, conditions, arithmetic, numbers, flags,
assignments, calls made for their effect. mutmut's changes of literal text and of single arguments
are left out: nearly all of them reword a message. `docs/mutation.md` lists the known survivors.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

import libcst as cst
from mutmut.__main__ import cli
from mutmut.mutation import file_mutation, mutators

_WORDING = (mutators.operator_string, mutators.operator_arg_removal)
# What the other operators reach already inside of a condition.
_REACHED = (cst.Comparison, cst.BooleanOperation, cst.UnaryOperation)


def condition_turned(node: cst.If | cst.While) -> Iterable[cst.CSTNode]:
    """`if found:` becomes `if not found:`, where nothing else changes the condition."""
    if not isinstance(node.test, _REACHED):
        inner = node.test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        yield node.with_changes(test=cst.UnaryOperation(cst.Not(), inner))


def call_dropped(node: cst.Expr) -> Iterable[cst.CSTNode]:
    """`seen.add(path)` becomes `pass`; a docstring stays."""
    if isinstance(node.value, cst.Call):
        yield cst.Pass()


def raise_dropped(node: cst.Raise) -> Iterable[cst.CSTNode]:
    """A refusal that is not made: `raise …` becomes `pass`."""
    if node.exc is not None:
        yield cst.Pass()


def operators() -> list[tuple[type, object]]:
    """Which change is tried on which kind of node."""
    kept = [pair for pair in mutators.mutation_operators if pair[1] not in _WORDING]
    return [
        *kept,
        (cst.If, condition_turned),
        (cst.While, condition_turned),
        (cst.Expr, call_dropped),
        (cst.Raise, raise_dropped),
    ]


def main(args: Sequence[str]) -> int:
    """Hand the arguments to mutmut; without a command of its own, `run` is meant."""
    file_mutation.mutation_operators = operators()
    commands = set(cli.commands)
    words = list(args) if args and args[0] in commands else ["run", *args]
    result = cli.main(words, prog_name="nox -s mutation --", standalone_mode=False)
    return result if isinstance(result, int) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
