"""What runs where: accounted boots on the CPU lane, real boots on a lane with a GPU."""

from __future__ import annotations

import os

LANE = os.environ.get("FORKPROOF_LANE", "cpu")
ACCOUNTED = ["test_boot_breaks.py", "test_numbers.py", "test_order.py", "test_rules.py", "test_signature.py"]
collect_ignore = ["test_boots.py"] if LANE == "cpu" else ACCOUNTED
