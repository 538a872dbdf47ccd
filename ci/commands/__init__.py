"""The thin shell: one module per command of ``python -m ci``.

Each module has ``add(subparsers)``, which registers its parser and sets
``func`` to a function ``(args) -> ExitCode``.
"""
