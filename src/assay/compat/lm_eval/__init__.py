"""lm-evaluation-harness: its package as task files import it, its task and model classes, its flags."""
