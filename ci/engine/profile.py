"""Launch profiles: one experiment on one lane, from which the command and environment of a boot follow.

Paths of models are variables (`${FORKPROOF_MODEL}`), so a profile is the same on every machine.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from ci.engine.identity import GATE_SETS, TIMED_SETS, parse_arm
from ci.errors import GateError, UsageError

PROFILES = Path(__file__).parent / "profiles"
SCHEMA_VERSION = 1
ANY_GPU = "any-gpu"
"""The lane of a profile that boots on every CUDA GPU; the lane that counts is then the machine's."""
UBATCHING_FLAGS = ("--enable-dbo", "--ubatch-size")
VARIABLE = re.compile(r"\$\{([A-Z][A-Z0-9_]*)\}")


Count = Annotated[int, msgspec.Meta(ge=1)]
Share = Annotated[float, msgspec.Meta(gt=0, le=1)]
MOST = 86_400.0
"""A day in seconds, and above any load and power limit: `inf` would wait for ever, or limit nothing."""
Positive = Annotated[float, msgspec.Meta(gt=0, le=MOST)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=MOST)]
Word = Annotated[str, msgspec.Meta(pattern=r"^[^\x00]*\Z")]
"""What a process can be started with: a NUL ends a word there."""
Variable = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*\Z")]
Reading = Literal["memory", "clocks", "power_limit", "temperature", "throttle", "processes"]
"""What the driver can be asked for: the names of `ci.lanes.gpu.READINGS`."""
KernelPath = Literal["2D", "3D", "any"]
"""`any` where a session is not about that arm's kernel."""


class ProfileError(GateError):
    """A profile that is not there or cannot be used as written."""


class Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is served; a folder or a name, with variables."""

    path: Word
    drafter: Word | None = None
    method: Word | None = None
    """The speculative method, such as `dflash`."""
    depth: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Tokens drafted per step."""


class Serve(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Engine settings. Those that are None are left to vLLM."""

    max_model_len: Count
    max_num_seqs: list[Count]
    """One boot each; a single one where requests are timed."""
    max_num_batched_tokens: Count | None = None
    gpu_memory_utilization: Share | None = None
    prefix_cache: bool | None = None
    match_unit: Count | None = None
    """`--prefix-match-unit`, in tokens."""
    capture_sizes: list[Count] | None = None
    """Capture sizes in tokens, where they must not be left to vLLM."""
    eager: bool = False
    compiler: Literal["eager", "inductor"] | None = None
    """Backend of torch.compile. `eager` traces and splits the graph for CUDA graphs as ever and compiles
    nothing: a small model boots faster, with the same attention."""
    flags: list[Word] = []
    """Further words of the command line."""


class Expect(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a boot is expected to end."""

    outcome: Literal["ready", "failed"] = "ready"
    causes: list[str] = []
    """Of a failure: any of these, in the words of the boot report."""
    stage: str | None = None
    """How far a boot that fails comes, in the words of the boot report; None for any."""
    attempts: Count = 1
    """How many boots the expectation was published for."""
    lines: list[str] = []
    """Phrases that the log must contain."""


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the machine must be like, and how long a boot may take."""

    load_average: Positive | None = None
    power_limit_w: Positive | None = None
    boot_timeout_s: Positive = 900.0
    must_read: list[Reading] = []
    """Readings of the GPU without which no boot starts; others may be unreadable, as under WSL2."""


class Point(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One prompt that is timed."""

    kind: Literal["prose", "repeat"]
    tokens: int
    """Of the prompt, exactly."""

    @property
    def name(self) -> str:
        """Kind and length."""
        return f"{self.kind}-{self.tokens}"


class Measure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a throughput session of this profile times, and how it is judged."""

    arms: tuple[Word, Word]
    """Reference and subject, each an arm and the flags it runs under: `patched+VLLM_INT4_MQ_3D=0`.

    `@subject` is the arm that the run is about, `@previous` the one with one patch less.
    """
    points: list[Point]
    generate: int
    """Tokens of each timed request."""
    judge: Literal["decode_tok_s", "step_ms", "isolated_step_ms"]
    """The metric that is judged; tokens per second only where all boots share one compile lineage."""
    rounds: Count = 1
    """How often each prompt is timed within a boot, an odd number: the median counts."""
    seed: int = 20260901
    chat: bool = False
    """The prompt is a chat message, with thinking off."""
    circle: bool = False
    """Prompts end in what the engine writes. Random weights go round in a circle, so drafts out of the prompt
    are full from the first step on; a boot whose steps are not full is not compared."""
    paths: tuple[KernelPath, KernelPath] | None = None
    """The kernel that verify batches of a full draft take in either arm, where the session is about that."""
    soak_s: Seconds = 60.0
    """How long the GPU works before the first counted boot."""
    boot_s: Seconds = 180.0
    """An estimate of one boot with its requests, for the first announcement only."""
    dummy_layers: tuple[Count, Count] = (8, 2)
    """Of target and drafter, where the model is the dummy."""
    not_run: list[str] = []
    """What its origin says was not run there."""


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One experiment on one lane."""

    schema: int
    lane: str
    experiment: str
    environment: Literal["native", "container", "wsl2", "any"]
    origin: str
    """Where the set was published."""
    lineage: str
    """`fresh` per boot, `disabled`, or `shared:ID`."""
    model: Model
    serve: Serve
    needs: str | None = None
    """What the pinned wheel lacks and a series has to bring."""
    env: dict[Variable, Word] = {}
    """Of the engine, beside what the gate sets itself."""
    expect: Expect = Expect()
    limits: Limits = Limits()
    measure: Measure | None = None

    @property
    def name(self) -> str:
        """Lane and experiment."""
        return f"{self.lane}-{self.experiment}"


def parse_profile(text: str, path: Path) -> Profile:
    """The profile in `text`.

    Raises:
        ProfileError: naming the file and the field.
    """
    try:
        profile = msgspec.convert(tomllib.loads(text), Profile, strict=True)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, RecursionError) as error:
        raise ProfileError(
            f"{path}: {error}",
            remedy="docs/membudget.md shows a profile, docs/throughput.md one with a [measure] table",
        ) from error
    if profile.schema != SCHEMA_VERSION:
        raise ProfileError(f"{path}: schema {profile.schema}, this version reads {SCHEMA_VERSION}")
    if path.stem != profile.name:
        raise ProfileError(
            f"{path}: is called {profile.name} inside", remedy=f"rename it to {profile.name}.toml"
        )
    if not re.fullmatch(r"fresh|disabled|shared:[a-z0-9-]+", profile.lineage):
        raise ProfileError(f"{path}: lineage {profile.lineage!r} is none of fresh, disabled, shared:ID")
    if profile.expect.outcome == "failed" and not profile.expect.causes:
        raise ProfileError(
            f"{path}: expects a failure of any kind", remedy='write causes = ["out of memory"]'
        )
    if not profile.serve.max_num_seqs:
        raise ProfileError(f"{path}: max_num_seqs must list at least one number of sequences")
    for name in profile.env:
        if name.startswith(GATE_SETS if profile.measure is None else TIMED_SETS):
            raise ProfileError(f"{path}: env: {name} is set by the gate itself", remedy="leave it out")
    if profile.measure is not None:
        check_measure(profile, profile.measure, path)
    return profile


def check_measure(profile: Profile, measure: Measure, path: Path) -> None:
    """Refuse a measure that could not say anything.

    Raises:
        ProfileError: no arm, no point, a point twice, too few tokens, too long, even rounds, several numbers
            of sequences, a circle that nothing would meet, or a judge that the lineage forbids.
    """
    for arm in measure.arms:
        try:
            parse_arm(arm)
        except UsageError as error:
            raise ProfileError(f"{path}: measure.arms: {error.what}", remedy=error.remedy) from error
    if len(profile.serve.max_num_seqs) > 1:
        raise ProfileError(
            f"{path}: serve.max_num_seqs is {profile.serve.max_num_seqs}, and requests are timed at one",
            remedy="one profile for each",
        )
    names = [point.name for point in measure.points]
    if not names or len(set(names)) < len(names):
        raise ProfileError(f"{path}: measure.points is empty or names a point twice")
    if measure.generate < 2 or min(point.tokens for point in measure.points) < 2:
        raise ProfileError(f"{path}: a decode rate needs at least 2 tokens, prompt and answer alike")
    if measure.rounds % 2 == 0:
        raise ProfileError(f"{path}: {measure.rounds} rounds have no median", remedy="an odd number")
    if measure.circle and (profile.model.method != "ngram" or profile.model.depth < 1 or measure.chat):
        raise ProfileError(f"{path}: a circle is met by n-gram drafts, of one token at least, outside a chat")
    longest = max(point.tokens for point in measure.points) + measure.generate
    if longest > profile.serve.max_model_len:
        raise ProfileError(
            f"{path}: {longest} tokens do not fit into max_model_len {profile.serve.max_model_len}"
        )
    if measure.judge == "decode_tok_s" and not profile.lineage.startswith("shared:"):
        raise ProfileError(
            f"{path}: tokens per second is judged, but every boot compiles its own code",
            cause="fresh compiles of one code accept drafts differently, whatever the arm",
            remedy='judge = "step_ms", or a shared lineage',
        )


def profile_names(folder: Path = PROFILES) -> list[str]:
    """The profiles that exist."""
    return sorted(path.stem for path in folder.glob("*.toml"))


def timed_names(folder: Path = PROFILES) -> list[str]:
    """Those that say what to time."""
    return [name for name in profile_names(folder) if load_profile(name, folder).measure is not None]


def load_profile(name: str, folder: Path = PROFILES) -> Profile:
    """The profile called `name`.

    Raises:
        ProfileError: there is none of that name, or it cannot be used.
    """
    if name not in profile_names(folder):
        raise ProfileError(
            f"there is no profile {name!r}", remedy=f"one of: {', '.join(profile_names(folder))}"
        )
    path = folder / f"{name}.toml"
    return parse_profile(path.read_text(encoding="utf-8"), path)


def filled(text: str, variables: Mapping[str, str]) -> str:
    """`text` with its variables replaced.

    Raises:
        ProfileError: a variable is not set.
    """
    missing = [name for name in VARIABLE.findall(text) if not variables.get(name)]
    if missing:
        raise ProfileError(
            f"{text}: {missing[0]} is not set",
            remedy=f"export {missing[0]}=/path/to/the/model, or use a dummy profile",
        )
    return VARIABLE.sub(lambda match: variables[match[1]], text)


def serve_words(profile: Profile, max_num_seqs: int, variables: Mapping[str, str]) -> list[str]:
    """The words behind `vllm serve` for one boot; host and port are the server's business."""
    serve = profile.serve
    words = [filled(profile.model.path, variables)]
    words += ["--max-model-len", str(serve.max_model_len), "--max-num-seqs", str(max_num_seqs)]
    words += ["--kv-cache-dtype", "int4_per_token_head", "--attention-backend", "TRITON_ATTN"]
    if serve.max_num_batched_tokens is not None:
        words += ["--max-num-batched-tokens", str(serve.max_num_batched_tokens)]
    if serve.gpu_memory_utilization is not None:
        words += ["--gpu-memory-utilization", str(serve.gpu_memory_utilization)]
    if serve.prefix_cache is not None:
        words.append("--enable-prefix-caching" if serve.prefix_cache else "--no-enable-prefix-caching")
    if serve.match_unit is not None:
        words += ["--prefix-match-unit", str(serve.match_unit)]
    if serve.eager:
        words.append("--enforce-eager")
    compilation = {"cudagraph_capture_sizes": serve.capture_sizes, "backend": serve.compiler}
    if compilation := {name: value for name, value in compilation.items() if value is not None}:
        words += ["--compilation-config", json.dumps(compilation)]
    if profile.model.depth:
        words += ["--speculative-config", json.dumps(speculation(profile, variables))]
    return words + serve.flags


def asks_ubatching(profile: Profile) -> bool:
    """Whether its flags let two halves of a batch run on streams of their own."""
    return any(flag.partition("=")[0] in UBATCHING_FLAGS for flag in profile.serve.flags)


def speculation(profile: Profile, variables: Mapping[str, str]) -> dict[str, object]:
    """vLLM's speculative configuration."""
    found: dict[str, object] = {"num_speculative_tokens": profile.model.depth}
    if profile.model.method:
        found["method"] = profile.model.method
    if profile.model.drafter:
        found["model"] = filled(profile.model.drafter, variables)
    return found


def boot_environment(profile: Profile, caches: Path) -> dict[str, str]:
    """Variables of one boot: the profile's, and every compile cache in a folder of its own.

    Args:
        profile: the experiment.
        caches: an empty folder of this boot, or of the lineage where boots share one.
    """
    variables = {
        "VLLM_CACHE_ROOT": str(caches / "vllm"),
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
        "TRITON_CACHE_DIR": str(caches / "triton"),
    }
    if profile.lineage == "disabled":
        variables["VLLM_DISABLE_COMPILE_CACHE"] = "1"
    return variables | profile.env
