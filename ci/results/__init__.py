"""What a run said: records, JSONL and JUnit, read strictly and written whole."""
