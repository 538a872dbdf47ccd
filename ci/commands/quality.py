"""``python -m ci quality``: what two arms answer: perplexities, word problems, tool calls."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from ci.commands import review
from ci.commands.quality_inputs import MATHS_VARIABLE, TEXTS_VARIABLE, read_maths, read_texts
from ci.commands.throughput import built_arms, check_served, check_timed, chosen, machine_lane
from ci.commands.throughput_session import Throughput, alone, measure_of, words_of
from ci.engine import lmeval
from ci.engine.abba import unused
from ci.engine.engines import Engine, ServedEngine
from ci.engine.identity import resolve_arm
from ci.engine.profile import Profile, filled, load_profile, serve_words
from ci.engine.server import Server
from ci.engine.session import session_key
from ci.engine.timed_boot import Watched, boot_arm, boot_problems
from ci.engine.toolchat import CONVERSATIONS, MAX_TOKENS, TURNS, talk, turns_of
from ci.errors import ExitCode, GateError, UsageError
from ci.gate.quality import repeats
from ci.gate.quality_records import judge, mismatch, records_of, unscored
from ci.gate.verdict import Verdict, last_line
from ci.lanes.gpu import lease, read_state
from ci.report.throughput import minutes
from ci.results.files import read_limited, write_atomic
from ci.results.quality import ArmScores, Talk, TextScore
from ci.results.throughput import Number
from ci.stack.cache import cache_root
from ci.stack.record import Flavour

EPILOG = """\
examples:
  python -m ci quality rtx3090-captured                    one arm with the flag at 0 and at 1
  python -m ci quality rtx3090-captured --items 50         fewer word problems

FORKPROOF_QUALITY_TEXTS names a folder of texts (en.txt, da.txt, code.txt), FORKPROOF_GSM8K a file of word
problems (without it lm-eval fetches its own), FORKPROOF_TOOL_PARSER how the model writes tool calls, as
vLLM's --tool-call-parser takes it. lm-eval runs in its own environment: nox -s quality.
"""
PARSER_VARIABLE = "FORKPROOF_TOOL_PARSER"
ITEMS = 200
ITEM_S = 3.5
"""Of a word problem, for an estimate: 381 tokens at 110 tokens per second were published."""
TURN_S = 1.0
SCORE_LIMIT_BYTES = 64 << 20
CHAT_TIMEOUT_S = 600.0
WORD_PROBLEMS = "the set of word problems"
OWN_PROBLEMS = 1319
"""Word problems that lm-eval fetches: the test split of GSM8K."""
UNSERVED = "compare other arms: this command always serves, and cannot compare such an arm"
AGAIN = "--fresh puts aside what was answered and asks both arms again"


class QualityError(GateError):
    """The answers of an arm cannot be used."""


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "quality",
        help="compare what two arms answer",
        description="Boot each arm once; score texts, word problems and tool calls; compare item by item.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("profile", help="a launch profile with a [measure] table")
    parser.add_argument("--arm", help="the arm it is about (default: the whole series)")
    parser.add_argument("--arms", nargs=2, metavar=("A", "B"), help="reference and subject, with flags")
    parser.add_argument("--items", type=int, default=ITEMS, help="word problems (default: %(default)s)")
    parser.add_argument("--session", type=Path, help="folder of the answers")
    parser.add_argument("--fresh", action="store_true", help="put aside what the arms have answered")
    parser.add_argument("--series", type=Path, metavar="DIR", help="a series other than patches/")
    parser.add_argument("--flavour", type=Flavour, choices=list(Flavour), help=argparse.SUPPRESS)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> ExitCode:
    """Hold the GPU, ask the arms that have not answered yet, and compare."""
    if args.items < 1:
        raise UsageError(f"--items {args.items}: at least 1")
    check_timed(args.profile, served=True)
    profile = chosen(load_profile(args.profile), args.arms, None)
    check_served(profile, remedy=UNSERVED)
    lane = machine_lane(profile)
    built = built_arms(profile, args, lane)
    folder = args.session or quality_folder(profile, lane, built)
    one = Quality(Throughput(profile, lane, built, folder), args.items)
    with lease(read_state().uuid or "unnamed", cache_root() / "leases", f"quality {profile.name}"):
        scores = one.scores(fresh=args.fresh)
    return one.conclude(scores)


def quality_folder(profile: Profile, lane: str, built: Iterable[str]) -> Path:
    """Where the answers of a profile's arms are kept, of those that are built."""
    names = list(built)
    arms = [resolve_arm(text, names).text for text in measure_of(profile).arms]
    return review.out_folder("quality", lane, profile.name, words_of(arms))


class Quality:
    """One quality session: two arms of a profile, one boot each."""

    def __init__(
        self, session: Throughput, items: int = ITEMS, variables: Mapping[str, str] | None = None
    ) -> None:
        self.session, self.items = session, items
        self.variables = dict(os.environ if variables is None else variables)
        self.python = self.variables.get(lmeval.PYTHON_VARIABLE)
        if not self.python:
            raise UsageError(
                f"{lmeval.PYTHON_VARIABLE} is not set: lm-eval has an environment of its own",
                remedy="nox -s quality",
            )
        self.texts = read_texts(self.variables.get(TEXTS_VARIABLE))
        maths = self.variables.get(MATHS_VARIABLE)
        self.maths = Path(maths) if maths else None
        self.word_problems = read_maths(self.maths) if self.maths else []
        if not self.maths and items > OWN_PROBLEMS:
            raise UsageError(
                f"--items {items}: GSM8K has {OWN_PROBLEMS} word problems",
                remedy=f"at most {OWN_PROBLEMS}, or export {MATHS_VARIABLE}=FILE with more",
            )
        self.parser = self.variables.get(PARSER_VARIABLE) or ""
        if not self.parser:
            raise UsageError(
                f"{PARSER_VARIABLE} is not set: vLLM answers no request with tools without it",
                remedy=f"export {PARSER_VARIABLE}=NAME, the model's own among those of vllm serve --help",
            )
        setup = session.setup(session.folder)
        self.setup = dataclasses.replace(setup, profile=with_tools(setup.profile, self.parser))
        seqs = setup.profile.serve.max_num_seqs[0]
        self.words = serve_words(self.setup.profile, seqs, setup.variables)
        """How the server is started, model and drafter filled in."""

    @property
    def key(self) -> str:
        """Everything that the arms of the session have in common."""
        head = self.session.head()
        conditions = repr(sorted(head.conditions.items()))
        limits = (str(self.items), str(MAX_TOKENS), json.dumps(lmeval.maths_task(None)))
        return session_key(
            head.key, conditions, *limits, repr(self.texts), repr(self.word_problems), *self.words
        )

    def scores(self, *, fresh: bool = False) -> tuple[ArmScores, ArmScores]:
        """What both arms said; an arm that has answered is not asked again.

        Args:
            fresh: it is; what it said is kept under another name.

        Raises:
            UsageError: another run has the folder.
            QualityError: answers are there that cannot be used, or the arms' are not to the same items.
        """
        with alone(self.session.folder, f"quality {self.session.profile.name}"):
            return self.asked(fresh=fresh)

    def asked(self, *, fresh: bool) -> tuple[ArmScores, ArmScores]:
        """The same, in a folder that no other run has."""
        folder = self.session.folder
        if fresh:
            for path in (folder / "A.json", folder / "B.json"):
                if path.exists():
                    path.rename(unused(folder, f"{path.stem}.aside", ".json"))
        first, second = (self.kept(letter) for letter in "AB")
        left, seconds = (first, second).count(None), self.estimate_s()
        if left:
            review.say(f"{left} of 2 arms left to ask, about {minutes(left * seconds)}\n")
        if first is None:
            begun = time.monotonic()
            first = self.arm_scores("A")
            if first.problems:
                return first, first  # with this, nothing that B says could be compared
            if second is None:
                review.say(f"1 of 2 arms left to ask, about {minutes(time.monotonic() - begun)}\n")
        second = second or self.arm_scores("B")
        if not second.problems and (found := mismatch(first, second)):
            what, cause = found
            raise QualityError(f"{folder}: A.json and B.json {what}", cause=cause, remedy=AGAIN)
        return first, second

    def estimate_s(self) -> float:
        """How long one arm may take, for the first announcement only."""
        turns = len(CONVERSATIONS) * TURNS
        return self.session.measure.boot_s + self.items * ITEM_S + turns * TURN_S

    def arm_scores(self, letter: str) -> ArmScores:
        """What one arm says, kept as its answers when they can be compared, aside when not."""
        found = self.ask(letter)
        found = replace(found, problems=found.problems or tuple(self.gaps(found, letter)))
        path = self.session.folder / f"{letter}.json"
        if found.problems:
            path = path.with_name(f"{letter}.failed.json")
            review.say(f"{found.arm} is asked again next time; what it said is in {path}\n")
        write_atomic(path, msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
        return found

    def kept(self, letter: str) -> ArmScores | None:
        """What an arm said, if it was asked in this session.

        Raises:
            QualityError: the file is damaged, incomplete, of the other arm or of another session.
        """
        path = self.session.folder / f"{letter}.json"
        if not path.exists():
            return None
        found = read_scores(path, self.key)
        if gaps := [*found.problems, *self.gaps(found, letter)]:
            raise QualityError(f"{path}: {gaps[0]}", remedy=f"remove {path} to ask the arm again")
        return found

    def gaps(self, found: ArmScores, letter: str) -> list[str]:
        """What keeps an arm's answers from being compared."""
        arm = self.setup.arms["AB".index(letter)].text
        if found.arm != arm:
            return [f"holds the answers of {found.arm}, not of {arm}"]
        wanted = {f"text {name}": len(parts) for name, parts in self.texts.items()}
        wanted |= {f"conversation {name}": TURNS for name in CONVERSATIONS}
        wanted[WORD_PROBLEMS] = min(self.items, len(self.word_problems) or self.items)
        got = {f"text {name}": sum(one.tokens > 0 for one in its) for name, its in found.texts.items()}
        got |= {f"conversation {name}": one.completions for name, one in found.talks.items()}
        got[WORD_PROBLEMS] = len(found.maths)
        gaps = [
            f"{name} has {got.get(name, 0)} answers, not {wanted.get(name, 0)}"
            for name in sorted(wanted.keys() | got.keys())
            if got.get(name) != wanted.get(name)
        ]
        if not gaps and letter == "A":
            gaps = [f"the reference gives text {name} no perplexity" for name in unscored(found)]
            if found.silent:  # lm-eval leaves the same of a request that failed: not to be compared with
                silent = f"{found.silent} of {len(found.maths)} answers of the reference to word problems"
                gaps.append(f"{silent} have no text: see the server's log for requests that failed")
        return gaps

    def ask(self, letter: str) -> ArmScores:
        """Boot one arm and ask everything."""
        setup = self.setup
        arm = setup.arms["AB".index(letter)]
        review.say(
            f"asking {arm.text}: {self.items} word problems, {len(self.texts)} texts, 2 conversations\n"
        )
        watched = Watched()
        maths: dict[str, bool] = {}
        said: list[str] = []
        texts: dict[str, list[TextScore]] = {}
        talks: dict[str, Talk] = {}
        tokens: list[Number] = []

        def watch(server: Server, _engine: Engine) -> None:
            engine = ServedEngine(server)  # counts plain texts, whatever the profile's prompts are
            answers = self.evaluate(server, letter)
            maths.update({one.item: one.right for one in answers.maths})
            said.extend(one.said for one in answers.maths if one.said)
            tokens.append(mean_tokens(engine, said))
            texts.update(scored_texts(engine, self.texts, answers.log_likelihoods))
            talks.update(self.converse(server))

        run, _, _ = boot_arm(setup, arm, f"quality-{letter}", watched, watch, None)
        return ArmScores(
            key=self.key,
            arm=arm.text,
            problems=(*boot_problems(setup, arm, run, watched), *watched.problems),
            maths=maths,
            silent=len(maths) - len(said),
            mean_tokens=tokens[0] if tokens else Number(None, "the arm was not asked"),
            texts=texts,
            talks=talks,
        )

    def evaluate(self, server: Server, letter: str) -> lmeval.Answers:
        """Run lm-eval against the server: texts first, then word problems, as a chat with thinking off."""
        setup = self.setup
        folder = setup.folder / f"lm-eval-{letter}"
        for old in folder.glob("**/samples_*.jsonl"):
            old.unlink()
        tasks = lmeval.write_tasks(folder, self.texts, self.maths)
        model = filled(setup.profile.model.path, setup.variables)
        base = server.url("")
        assert self.python is not None  # noqa: S101 - checked when the session was made
        runs = [lmeval.command(self.python, base, model, model, folder, tasks[:-1])] if tasks[:-1] else []
        runs.append(
            lmeval.command(self.python, base, model, model, folder, tasks[-1:], self.items, chat=True)
        )
        for words in runs:
            lmeval.run(words, self.outside(), folder / "lm-eval.log")
        return lmeval.read_answers(folder, list(self.texts))

    def outside(self) -> dict[str, str]:
        """The caller's environment without what makes Python import an arm."""
        return {name: value for name, value in self.variables.items() if not name.startswith("PYTHON")}

    def converse(self, server: Server) -> dict[str, Talk]:
        """Both tool conversations."""
        model = model_name(server)
        found = {}
        for name in CONVERSATIONS:
            turns = turns_of(name, self.session.measure.seed)
            found[name] = talk(
                lambda asked: server.post("/v1/chat/completions", asked, CHAT_TIMEOUT_S),
                model,
                turns,
                repeats,
            )
        return found

    # --- judging ------------------------------------------------------------------

    def conclude(self, scores: tuple[ArmScores, ArmScores]) -> ExitCode:
        """Show what both arms said, and the verdict of the test and the bounds."""
        for record in records_of(*scores):
            value = f"not read: {record.reason}" if record.value is None else f"{record.value} {record.unit}"
            review.say(f"{record.case:20} {record.metric:18} {value}\n")
        problems = [problem for one in scores for problem in one.problems]
        verdict, detail = Verdict.INVALID, problems[0] if problems else ""
        if not problems:
            policy = review.load_rules(review.default_baselines()).policy
            verdict, detail = judge(*scores, policy)
        code = verdict.exit_code
        review.say(last_line(verdict, f"{self.session.profile.name}: {detail}", code) + "\n")
        return code


def with_tools(profile: Profile, parser: str) -> Profile:
    """The profile under which the server lets its model choose a tool.

    Args:
        profile: of both arms.
        parser: reads the calls out of the model's text, by vLLM's name for it.
    """
    flags = [*profile.serve.flags, "--enable-auto-tool-choice", "--tool-call-parser", parser]
    return replace(profile, serve=replace(profile.serve, flags=flags))


def read_scores(path: Path, key: str) -> ArmScores:
    """What an arm said.

    Raises:
        QualityError: the file is damaged, or of another session.
    """
    try:
        found = msgspec.json.decode(read_limited(path, SCORE_LIMIT_BYTES), type=ArmScores, strict=True)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise QualityError(f"{path}: {error}", remedy=f"remove {path} to ask the arm again") from error
    if found.key != key:
        what = "profile, arm, model, machine, tool parser, text, word problem or number of them"
        raise QualityError(f"{path}: is of another {what}", remedy=AGAIN)
    return found


def scored_texts(
    engine: Engine, texts: Mapping[str, Sequence[str]], scores: Mapping[str, Sequence[float]]
) -> dict[str, list[TextScore]]:
    """Scores with the number of tokens that they are over.

    Raises:
        QualityError: a text has another number of scores than parts.
    """
    found = {}
    for name, its_parts in texts.items():
        if len(scores[name]) != len(its_parts):
            raise QualityError(f"{name}: {len(its_parts)} parts were given, {len(scores[name])} scored")
        found[name] = [
            TextScore(score if math.isfinite(score) else None, len(engine.encode(part)))
            for part, score in zip(its_parts, scores[name], strict=True)
        ]
    return found


def mean_tokens(engine: Engine, answers: Sequence[str]) -> Number:
    """Tokens of an answer that has text, by the server's tokenizer."""
    if not answers:
        return Number(None, "no answer has text")
    return Number(sum(len(engine.encode(answer)) for answer in answers) / len(answers))


def model_name(server: Server) -> str:
    """What the server calls its model.

    Raises:
        QualityError: it does not say.
    """
    try:
        listed = msgspec.json.decode(server.get("/v1/models") or "")
        return str(listed["data"][0]["id"])
    except (msgspec.MsgspecError, KeyError, IndexError, TypeError) as error:
        raise QualityError("/v1/models names no model", remedy="look at the server's log") from error
