"""What an evaluation comes to, in words."""

from __future__ import annotations

from collections.abc import Sequence

from warmstart.memory.evaluation.values import BackendEvaluation


def recommendation(evaluations: Sequence[BackendEvaluation]) -> str:
    """Which backend to take and why; and what speaks against it."""
    working = [each for each in evaluations if each.is_available and each.is_working]
    if not working:
        names = ", ".join(each.backend_name for each in evaluations) or "none"
        return f"No backend can be recommended: none of those evaluated ({names}) keeps and finds what it is given."
    best = max(working, key=_merit)
    said = [f"Use {best.backend_name}: {best.score} of 100 ({best.verdict})"]
    if best.relevance is not None and best.relevance.hit_at_5 is not None:
        said.append(
            f"it finds the right memory among the first five for {best.relevance.hit_at_5:.0%} of the questions"
        )
    said.append("nothing leaves the machine" if not best.is_cloud else "what is stored leaves the machine")
    text = ", ".join(said) + "."
    return " ".join([text, *_flaws(best), *_rivals(best, working)])


def warnings(evaluations: Sequence[BackendEvaluation]) -> list[str]:
    """What somebody should know before they choose one of these."""
    found = []
    for each in evaluations:
        if each.is_cloud:
            found.append(f"{each.backend_name}: what is stored there leaves this machine.")
        if each.relevance is not None and each.relevance.leaked:
            found.append(f"{each.backend_name}: {each.relevance.leaked} entries of another user came back.")
        lost = sum(trial.lost for trial in each.reliability)
        if lost:
            found.append(f"{each.backend_name}: {lost} writes that it had acknowledged were lost.")
        if each.forgetting is not None and not each.forgetting.is_gone:
            found.append(f"{each.backend_name}: a deleted entry could still be found.")
    return found


def _merit(each: BackendEvaluation) -> tuple[float, ...]:
    """Nothing lost and nothing leaked first, then the score, then how much it finds."""
    lost = sum(trial.lost for trial in each.reliability)
    leaked = each.relevance.leaked if each.relevance else 0
    hits = (each.relevance.hit_at_5 if each.relevance else None) or 0.0
    return (-(lost > 0), -(leaked > 0), each.score, hits, -(each.mean_ms or 0.0))


def _flaws(best: BackendEvaluation) -> list[str]:
    lost = sum(trial.lost for trial in best.reliability)
    flaws = [f"But it lost {lost} acknowledged writes."] if lost else []
    if best.forgetting is not None and not best.forgetting.is_gone:
        flaws.append("But what was deleted there could still be found.")
    return flaws


def _rivals(best: BackendEvaluation, working: Sequence[BackendEvaluation]) -> list[str]:
    """Whoever finds clearly more than the best: that may be worth more than points."""
    if best.relevance is None or best.relevance.hit_at_5 is None:
        return []
    said = []
    for each in working:
        if each is not best and each.relevance is not None and each.relevance.hit_at_5 is not None:
            ahead = each.relevance.hit_at_5 - best.relevance.hit_at_5
            if ahead >= 0.1:
                where = ", but it is not on this machine" if each.is_cloud else ""
                said.append(f"{each.backend_name} finds more ({each.relevance.hit_at_5:.0%}){where}.")
    return said
