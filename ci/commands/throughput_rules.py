"""What policy and A/A sessions say about the judged metric of a throughput session."""

from __future__ import annotations

from collections.abc import Mapping

from ci.commands import review
from ci.engine.profile import Measure
from ci.errors import UsageError
from ci.gate.ab import Noise
from ci.gate.cell import noise_for
from ci.gate.policy import Kind, Rule
from ci.gate.throughput import UNITS, boot_deviation
from ci.results.aa import AA_FILE, read_aa
from ci.results.records import Record, RunHead, Scalar, Subject

SUITE = "throughput"


class Judging:
    """The rules of the judged metric for every prompt of a profile, and the lane's noise under them."""

    def __init__(
        self, experiment: str, lane: str, measure: Measure, conditions: Mapping[str, Scalar]
    ) -> None:
        self.experiment, self.lane, self.measure = experiment, lane, measure
        self.conditions = dict(conditions)
        self.loaded = review.load_rules(review.default_baselines())
        self.aa = read_aa(self.loaded.folder / lane / AA_FILE)

    def case(self, point: str) -> str:
        """The case of a prompt."""
        return f"{self.experiment}-{point}"

    def rule(self, point: str) -> Rule:
        """The rule of a prompt's judged metric.

        Raises:
            UsageError: the policy does not compare boots by this metric.
        """
        rule = self.loaded.policy.rule_for(SUITE, self.case(point), self.measure.judge)
        if rule is None or rule.kind is not Kind.AB:
            raise UsageError(
                f"no rule of kind ab covers {SUITE}/{self.case(point)}/{self.measure.judge}",
                remedy="add one to baselines/policy.toml, with the origin of its margin",
            )
        return rule

    @property
    def margin(self) -> float:
        """The smallest of the prompts' margins."""
        return min(self.rule(point.name).margin or 1.0 for point in self.measure.points)

    @property
    def limit(self) -> int:
        """The largest number of pairs of the prompts' rules."""
        return max(self.rule(point.name).pairs or 0 for point in self.measure.points)

    def noise(self, point: str) -> Noise:
        """The lane's noise of a prompt's judged metric, from its A/A sessions."""
        judge = self.measure.judge
        record = Record(self.case(point), judge, None, UNITS[judge])
        head = RunHead(1, "", self.lane, SUITE, "", Subject("", ""), self.conditions)
        return noise_for(self.rule(point), SUITE, record, head, self.aa)

    @property
    def deviation(self) -> float:
        """Of one boot, as a fraction; 0 where the lane has no A/A session."""
        return boot_deviation(self.noise(point.name) for point in self.measure.points)
