"""Whether the boots of a throughput session may be compared.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ci.gate.cell import FLAG_MARK
from ci.gate.looks import PAIRS_PER_BLOCK
from ci.results.throughput import BootMeasure, Number, SessionHead

SHARED = "shared:"
"""How a session's lineage begins in which all boots have one compile cache."""
RATE = "tok/s"
"""The unit of which less is a loss; of milliseconds it is more."""
UNITS = {
    "step_ms": "ms",
    "isolated_step_ms": "ms",
    "prefill_ms": "ms",
    "decode_tok_s": RATE,
    "isolated_tok_s": RATE,
    "tokens_per_step": "tokens",
}
PAIRED = tuple(UNITS)
"""Metrics that become records with their boots."""
PACES = ("step_ms", "isolated_step_ms", "decode_tok_s", "isolated_tok_s")
"""What tells how fast a boot was, best first: where steps could not be counted, the rates of tokens do."""
LEAST_AGREEMENT = 0.02
"""Boots of one arm from one cache may differ by so much before anything is suspected; the published spread of
four boots is 0.9%, and a poisoned artifact costs 160%."""
DEVIATIONS = 5.0
"""Of the lane's noise, where that is known and larger."""
MOST_AGREEMENT = 1.0
"""However noisy a lane is: a boot that takes twice as long has another reason."""
LEAST, MOST = 1e-9, 1e9
"""Milliseconds, tokens and tokens per second outside are no measurement."""


def session_problems(
    head: SessionHead, boots: Sequence[BootMeasure], noise_of_boot: float = 0.0
) -> list[str]:
    """Why the boots must not be compared; empty if they may.

    Args:
        head: the session.
        boots: in their order.
        noise_of_boot: standard deviation of one boot on this lane, as a fraction; 0 where it is not known.
    """
    problems = [f"boot {boot.place} ({boot.arm}): {problem}" for boot in boots for problem in boot.problems]
    problems += [
        problem
        for boot in boots
        for point in head.points
        for metric in PAIRED
        if (problem := not_positive(boot, point, metric))
    ]
    if problems:
        return problems
    for boot in boots:
        if boot.arm != head.arms["AB".index(boot.letter)]:
            problems.append(f"boot {boot.place} is {boot.arm}, not {head.arms['AB'.index(boot.letter)]}")
        problems += [f"boot {boot.place} ({boot.arm}): {problem}" for problem in seen_problems(boot)]
        missing = [point for point in head.points if boot.point(point) is None]
        if missing:
            problems.append(f"boot {boot.place} did not measure {', '.join(missing)}")
    unread = [boot for boot in boots if boot.pool_tokens.value is None]
    problems += [
        f"boot {boot.place}: its pool tokens are not known: {boot.pool_tokens.reason}" for boot in unread
    ]
    problems += [] if unread else unequal(boots, "pool tokens", lambda boot: boot.pool_tokens.value)
    for point in head.points:
        for what, field in (
            ("prompt tokens", "prompt_tokens"),
            ("generated tokens", "completion_tokens"),
            ("prompts", "prompt_sha256"),
        ):
            problems += unequal(boots, f"{point}: {what}", value_of(point, field))
    for letter in "AB":
        same = [boot for boot in boots if boot.letter == letter]
        problems += unequal(same, f"arm {letter}: plan lines", lambda boot: boot.seen and boot.seen.scratch)
        problems += unequal(same, f"arm {letter}: series", lambda boot: boot.seen and boot.seen.series_hash)
        problems += disagreements(same, head, noise_of_boot)
        if str(head.conditions.get("lineage", "")).startswith(SHARED):
            problems += compiled_again(same)
    if any(boot.modules_loaded for boot in boots) and not any(boot.modules_compiled for boot in boots):
        problems.append(
            "no boot compiled the code that the others loaded, so a poisoned artifact could not be seen"
        )
    for start in range(0, len(boots), 2 * PAIRS_PER_BLOCK):
        block = boots[start : start + 2 * PAIRS_PER_BLOCK]
        problems += unequal(block, f"block from boot {start}: GPU", gpu_of)
    return problems


def seen_problems(boot: BootMeasure) -> list[str]:
    """What the record of its processes shows: that a boot is not the arm that it is taken for."""
    if boot.seen is None or not boot.seen.processes:
        return ["no process of the engine was looked at"]
    problems = [] if boot.seen.root_first else ["an engine process did not import vLLM from the arm"]
    for word in boot.arm.split(FLAG_MARK)[1:]:
        name, _, value = word.partition("=")
        found = boot.seen.flags.get(name)
        problems += [] if found == value else [f"{name} was {found!r} in the engine's processes"]
    return problems


def compiled_again(boots: Sequence[BootMeasure]) -> list[str]:
    """Boots of one arm that did not find what its first boot had in the cache that all of them share.

    That boot need not have compiled it: the other arm's may be the same code.
    """
    return [
        f"boot {boot.place} compiled again what boot {boots[0].place} had "
        f"{'compiled' if boots[0].modules_compiled else 'loaded'}: the session's cache was removed in between"
        for boot in boots[1:]
        if boot.modules_compiled and (boots[0].modules_compiled or boots[0].modules_loaded)
    ]


def gpu_of(boot: BootMeasure) -> object:
    """The card that a boot ran on."""
    return boot.machine.get("gpu_uuid")


def value_of(point: str, field: str) -> Callable[[BootMeasure], object]:
    """Reads a field of one prompt; None where the boot lacks it."""

    def read(boot: BootMeasure) -> object:
        measured = boot.point(point)
        return None if measured is None else getattr(measured, field)

    return read


def number_of(boot: BootMeasure, point: str, metric: str) -> Number:
    """A metric of one prompt, or why there is none."""
    measured = boot.point(point)
    number: Number = getattr(measured, metric) if measured else Number(None, "not measured")
    return number


def not_positive(boot: BootMeasure, point: str, metric: str) -> str | None:
    """A sentence if a metric has a value that no ratio can be made of; a value that is not known is none."""
    value = number_of(boot, point, metric).value
    if value is None or LEAST <= value <= MOST:
        return None
    return (
        f"boot {boot.place}: {metric} of {point} is {value:g}, "
        f"not a positive number from {LEAST:g} to {MOST:g}"
    )


def unequal(boots: Sequence[BootMeasure], what: str, read: Callable[[BootMeasure], object]) -> list[str]:
    """A sentence if the boots differ in something that has to be equal."""
    values = list(dict.fromkeys(read(boot) for boot in boots))
    if len(values) < 2:
        return []
    by_arm = [f"{value} in boot {next(b.place for b in boots if read(b) == value)}" for value in values]
    return [f"{what} differ: {', '.join(by_arm)}"]


def disagreements(boots: Sequence[BootMeasure], head: SessionHead, noise_of_boot: float) -> list[str]:
    """Boots of one arm from one cache that do not agree: noise, or an artifact that is slow where loaded.

    Boots that each compiled their own code share nothing that could be at fault: their spread is noise, which
    the interval of the session has in it.
    """
    if not any(boot.modules_loaded for boot in boots):
        return []
    allowed = min(max(LEAST_AGREEMENT, DEVIATIONS * noise_of_boot), MOST_AGREEMENT)
    found = []
    for point in head.points:
        timed = paces(boots, point)
        if not timed:
            unknown = f"{point}: nothing tells how fast all boots of {boots[0].arm} were"
            found.append(f"{unknown}, so a poisoned artifact could not be seen")
            continue
        fastest, slowest = (pick(timed, key=lambda one: one[0]) for pick in (min, max))
        times = slowest[0] / fastest[0]
        if times - 1 > allowed:
            found.append(describe_disagreement(point, fastest[1], slowest[1], times, allowed))
    return found


def describe_disagreement(
    point: str, fast: BootMeasure, slow: BootMeasure, times: float, allowed: float
) -> str:
    """What two boots of one arm show."""
    words = f"{point}: boots {fast.place} and {slow.place} of {fast.arm} differ {times:.2f} times"
    wrote, loads = fast.modules_compiled and not fast.modules_loaded, slow.modules_loaded > 0
    text = {measured.text_sha256 for boot in (fast, slow) if (measured := boot.point(point))}
    if wrote and loads:
        same = "with equal text" if len(text) == 1 else "with other text"
        return (
            f"{words}: full speed where the code was compiled, slower where it was loaded, {same}: "
            "a poisoned artifact in the compile cache"
        )
    return f"{words}, more than {allowed:.1%} allows for one arm"


def paces(boots: Sequence[BootMeasure], point: str) -> list[tuple[float, BootMeasure]]:
    """How long each boot took for a step or a token, by the first metric that all know; empty without one."""
    for metric in PACES:
        values = [number_of(boot, point, metric).value for boot in boots]
        known = [value for value in values if value is not None]
        if len(known) == len(boots):
            times = [1 / value if UNITS[metric] == RATE else value for value in known]
            return list(zip(times, boots, strict=True))
    return []
