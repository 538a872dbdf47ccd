"""What the suites share: finding production names in the arm under test and configuring it.

Importing this package imports vLLM, so only suites that run against an arm may use it.
"""

from ci.lanes.extensions import install

install()
