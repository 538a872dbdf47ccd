"""One vLLM server under test: launch profile, boot, boot log."""
