"""What the suites share: finding production names in the arm under test and configuring it.

Importing this package imports vLLM, so only suites that run against an arm may use it.
"""

from armlib.lean import stand_in_for_extensions

stand_in_for_extensions()
