"""How good a memory backend is: a score that has to be earned, and what that score does not say."""

from warmstart.memory.evaluation.evaluate import evaluate_backend, evaluate_backends
from warmstart.memory.evaluation.values import BackendEvaluation, EvaluationReport

__all__ = ["BackendEvaluation", "EvaluationReport", "evaluate_backend", "evaluate_backends"]
