"""The order of a boot, read from the source of the arm's engine, worker and model runner.

The calls of each function are followed in source order, across the few classes that a boot runs through. The
result is a list of events that drives the accounted boot: nothing here says in which order they should come.
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from armlib.production import NotInArmError


class Event(enum.Enum):
    """What a boot does that matters to the memory budget."""

    LOAD_MODEL = "load model"
    WINDOW_OPENS = "memory profile opens"
    PROFILE_RUN = "profile run"
    WINDOW_CLOSES = "memory profile closes"
    BUILDERS = "metadata builders"
    BUDGET_FIXED = "KV budget fixed"


@dataclass(frozen=True)
class Part:
    """One class (or, without a class, the functions of one module) that a boot runs through."""

    file: str
    """Path below the arm's root."""
    owner: str | None
    receivers: tuple[str, ...]
    """How the others call it: `self.model_runner` in `self.model_runner.profile_run()`."""


ENGINE = Part("vllm/v1/engine/core.py", "EngineCore", ())
EXECUTOR = Part("vllm/v1/executor/uniproc_executor.py", "UniProcExecutor", ())
WORKER = Part("vllm/v1/worker/gpu_worker.py", "Worker", ("self.model_executor", "self.driver_worker"))
DRAFTER = Part("vllm/v1/spec_decode/llm_base_proposer.py", "SpecDecodeBaseProposer", ("self.drafter",))
RUNNER_V1 = Part("vllm/v1/worker/gpu_model_runner.py", "GPUModelRunner", ("self.model_runner",))
RUNNER_V2 = Part("vllm/v1/worker/gpu/model_runner.py", "GPUModelRunner", ("self.model_runner",))
ATTENTION_V2 = Part("vllm/v1/worker/gpu/attn_utils.py", None, ("init_attn_backend",))
PARTS = {
    "v1": (ENGINE, EXECUTOR, WORKER, RUNNER_V1, DRAFTER),
    "v2": (ENGINE, EXECUTOR, WORKER, RUNNER_V2, ATTENTION_V2),
}
"""By model runner: vLLM has two."""
CONSTRUCTS_EXECUTOR = "executor_class"
ENTRY = "__init__"
EXECUTOR_ENTRY = "_init_executor"
BUDGET = "self.available_kv_cache_memory_bytes"
BUILDERS_CALL = "create_metadata_builders"
WINDOW = "memory_profiling"
REMEDY = "follow the new source in tests/membudget/source_order.py"


@dataclass
class Source:
    """One part with its functions."""

    part: Part
    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)

    @classmethod
    def parse(cls, part: Part, text: str) -> Source:
        """Functions of the part's class, or of its module."""
        tree = ast.parse(text)
        body = tree.body
        if part.owner is not None:
            owners = [node for node in body if isinstance(node, ast.ClassDef) and node.name == part.owner]
            if not owners:
                raise NotInArmError(f"{part.file} has no class {part.owner}: {REMEDY}")
            body = owners[0].body
        return cls(part, {node.name: node for node in body if isinstance(node, ast.FunctionDef)})


def read_sources(root: Path, runner: str = "v1") -> dict[Part, str]:
    """The texts of the parts of a boot, from the arm in `root`."""
    return {part: (root / part.file).read_text(encoding="utf-8") for part in PARTS[runner]}


def boot_order(texts: dict[Part, str]) -> list[Event]:
    """Events of a boot, in the order in which the source makes them happen; repeats in a row count once.

    Raises:
        NotInArmError: the source has changed so far that a boot cannot be followed.
    """
    walker = Walker([Source.parse(part, text) for part, text in texts.items()])
    events: list[Event] = []
    for event in walker.function(ENGINE, ENTRY):
        if not events or events[-1] is not event:
            events.append(event)
    absent = [event.value for event in Event if event not in events]
    if absent:
        raise NotInArmError(f"the boot's source shows no {', '.join(absent)}: {REMEDY}")
    return events


class Walker:
    """Follows calls from function to function."""

    def __init__(self, sources: list[Source]) -> None:
        self.sources = {source.part: source for source in sources}
        self.active: list[tuple[Part, str]] = []

    def function(self, part: Part, name: str) -> Iterator[Event]:
        """Events of one function; nothing for one that is unknown or already being followed."""
        node = self.sources[part].functions.get(name)
        if node is None or (part, name) in self.active:
            return
        self.active.append((part, name))
        for statement in node.body:
            yield from self.visit(part, statement)
        self.active.pop()

    def visit(self, part: Part, node: ast.AST) -> Iterator[Event]:
        """Events below one syntax node, in source order."""
        if isinstance(node, ast.With) and any(called(item.context_expr) == WINDOW for item in node.items):
            yield Event.WINDOW_OPENS
            yield from self.all(part, node.body)
            yield Event.WINDOW_CLOSES
        elif isinstance(node, ast.If) and isinstance(node.body[-1], ast.Return | ast.Raise):
            # An early exit is another boot than the one that is followed.
            yield from self.all(part, node.orelse)
        elif isinstance(node, ast.Assign) and any(ast.unparse(target) == BUDGET for target in node.targets):
            yield from self.visit(part, node.value)
            yield Event.BUDGET_FIXED
        elif isinstance(node, ast.Call):
            yield from self.all(part, [*node.args, *(keyword.value for keyword in node.keywords)])
            yield from self.call(part, called(node))
        elif not isinstance(node, ast.FunctionDef | ast.Lambda):
            yield from self.all(part, list(ast.iter_child_nodes(node)))

    def all(self, part: Part, nodes: list[ast.AST] | list[ast.stmt] | list[ast.expr]) -> Iterator[Event]:
        """Events of several nodes."""
        for node in nodes:
            yield from self.visit(part, node)

    def call(self, part: Part, name: str) -> Iterator[Event]:
        """Events of one call."""
        receiver, _, method = name.rpartition(".")
        if method == BUILDERS_CALL:
            yield Event.BUILDERS
        elif name == "self.model_runner.load_model":
            yield Event.LOAD_MODEL
        elif name == CONSTRUCTS_EXECUTOR:
            yield from self.function(EXECUTOR, EXECUTOR_ENTRY)
        else:
            if name == "self.model_runner.profile_run":
                yield Event.PROFILE_RUN
            target = part if receiver == "self" else self.target(receiver or method)
            if target is not None:
                yield from self.function(target, method)

    def target(self, receiver: str) -> Part | None:
        """The part that is called by this name."""
        return next((part for part in self.sources if receiver in part.receivers), None)


def called(node: ast.AST) -> str:
    """The dotted name that a call calls; empty for anything else."""
    return ast.unparse(node.func) if isinstance(node, ast.Call) else ""
