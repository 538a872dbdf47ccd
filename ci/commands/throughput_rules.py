"""What policy and A/A sessions say about the judged metrics of a throughput session."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ci.commands import review
from ci.engine.profile import Measure
from ci.errors import UsageError
from ci.gate.ab import Design, Noise
from ci.gate.cell import noise_for
from ci.gate.policy import Direction, Kind, Rule
from ci.gate.throughput import Judge, boot_deviation
from ci.gate.throughput_validity import PAIRED, UNITS
from ci.results.aa import AA_FILE, read_aa
from ci.results.records import Record, RunHead, Scalar, Subject

SUITE = "throughput"


class Judging:
    """The rules for every prompt of a profile, and the lane's noise under them."""

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

    def rule(self, point: str, metric: str) -> Rule:
        """The rule by which a prompt's metric is judged.

        Raises:
            UsageError: the policy does not compare boots by this metric.
        """
        rule = self.loaded.policy.rule_for(SUITE, self.case(point), metric)
        if rule is None or rule.kind is not Kind.AB:
            raise UsageError(
                f"no rule of kind ab covers {SUITE}/{self.case(point)}/{metric}",
                remedy="add one to baselines/policy.toml, with the origin of its margin",
            )
        return rule

    def rules(self, metric: str) -> list[Rule]:
        """Those of a metric for all prompts."""
        return [self.rule(point.name, metric) for point in self.measure.points]

    @property
    def limit(self) -> int:
        """The largest number of pairs of the rules of the profile's metric."""
        return max(rule.pairs or 0 for rule in self.rules(self.measure.judge))

    def metrics(self) -> list[str]:
        """The profile's metric, and further ones that the policy judges by boots, too."""
        first = self.measure.judge
        return [first, *(metric for metric in PAIRED if metric != first and self.judged(metric))]

    def judged(self, metric: str) -> bool:
        """Whether the policy judges a metric by boots at every prompt."""
        found = [
            self.loaded.policy.rule_for(SUITE, self.case(point.name), metric) for point in self.measure.points
        ]
        return all(rule is not None and rule.kind is Kind.AB for rule in found)

    def judges(self, pairs: int) -> list[Judge]:
        """How each judged metric is judged in a session of at most so many pairs, the profile's first."""
        found = []
        for metric in self.metrics():
            rules = self.rules(metric)
            higher = rules[0].direction is Direction.HIGHER
            design = Design(min(rule.margin or 1.0 for rule in rules), pairs)
            found.append(Judge(metric, higher, design, partial(self.noise, metric)))
        return found

    def noise(self, metric: str, point: str) -> Noise:
        """The lane's noise of a prompt's metric, from its A/A sessions."""
        record = Record(self.case(point), metric, None, UNITS[metric])
        head = RunHead(1, "", self.lane, SUITE, "", Subject("", ""), self.conditions)
        return noise_for(self.rule(point, metric), SUITE, record, head, self.aa)

    @property
    def deviation(self) -> float:
        """Of one boot in the profile's metric, as a fraction; 0 where the lane has no A/A session."""
        return boot_deviation(self.noise(self.measure.judge, point.name) for point in self.measure.points)
