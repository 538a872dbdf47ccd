"""How verdicts are shown: console, Markdown.  No decisions are made here."""
