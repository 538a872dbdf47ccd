"""forkproof: the gate for a patched vLLM.

The package is laid out in one direction: ``stack``, ``engine`` and ``lanes``
produce what ``results`` can read and write, ``gate`` decides what it means and
``report`` shows it.  ``commands`` is the thin shell over all of them.
"""
