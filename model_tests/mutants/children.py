"""What a child does that runs a mutant: it takes the mutant in, and keeps within limits.

A mutant is a code object that takes the place of that of the function, wherever the function is
known by now: imported, in a property, behind a cache. This room knows CPython, not pytest.
"""

from __future__ import annotations
import __future__

import ast
import gc
import os
import pickle
import resource
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from model_tests.mutants.operators import Made

MEMORY = 2 << 30
"""A child may take as many bytes more than its parent."""


def in_child(work: Callable[[], Any]) -> Any:
    """What `work` returns, done in a process of its own. RuntimeError if it ends without."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(reading)
            with os.fdopen(writing, "wb") as pipe:
                pickle.dump(work(), pipe)
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    if os.waitpid(pid, 0)[1] != 0:
        raise RuntimeError("the tests did not end without a mutant")
    return pickle.loads(said)


def limited(cpu_s: float) -> None:
    """The kernel ends this process after so much CPU time; memory it may take is limited, too."""
    used = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    resource.setrlimit(resource.RLIMIT_CPU, (int(used + cpu_s) + 2, resource.RLIM_INFINITY))
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    most = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def functions_of(files: set[str]) -> dict[tuple[str, str, int], list[FunctionType]]:
    """Every function of these files that is there now, by file, qualified name and first line."""
    found: dict[tuple[str, str, int], list[FunctionType]] = defaultdict(list)
    gc.unfreeze()  # what is frozen is not among the objects
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__code__.co_filename in files:
            code = each.__code__
            found[code.co_filename, code.co_qualname, code.co_firstlineno].append(each)
    return found


def mutate(made: Made, path: str, targets: Sequence[FunctionType]) -> None:
    """Put the mutant in the place of these functions. LookupError if there is none."""
    if not targets:
        raise LookupError(f"there is no function {made.function}")
    text = made.module_text()
    code = next(
        code
        for code in _codes(compile(text, path, "exec"))
        if (code.co_qualname, code.co_firstlineno) == (made.function, made.first_line)
    )
    for target in targets:
        free = target.__code__.co_freevars
        target.__code__ = code if code.co_freevars == free else code.replace(co_freevars=free)
        if not made.in_body:
            again = _defined_again(text, made, target)
            target.__defaults__, target.__kwdefaults__ = again.__defaults__, again.__kwdefaults__


def _codes(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _codes(each)


def _defined_again(text: str, made: Made, target: FunctionType) -> Any:
    """The function as its `def` makes it, for the defaults of its arguments."""
    found: Any = next(
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and min([node.lineno, *(each.lineno for each in node.decorator_list)]) == made.first_line
    )
    found.decorator_list = []
    names = dict(target.__globals__)
    flags = __future__.annotations.compiler_flag
    exec(compile(ast.Module([found], []), "<defaults>", "exec", flags), names)
    return names[found.name]
