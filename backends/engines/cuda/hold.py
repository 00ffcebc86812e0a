"""Taking the GPU state of a job's processes into host memory, and giving it back."""

from __future__ import annotations

from collections.abc import Sequence

from backends.engines.cuda.states import State, letting_go, saving, stuck
from backends.engines.cuda.tool import Turn
from backends.errors import EngineError


def survey(turn: Turn, pids: Sequence[int]) -> dict[int, State]:
    """The state of each process now."""
    return {pid: turn.state(pid) for pid in pids}


def take(turn: Turn, pids: Sequence[int], lock_ms: int) -> None:
    """Lock all, then checkpoint all. When a step fails, all that can run again do so.

    Raises:
        EngineError: a step failed; the message says why, and which processes do not run after all.
    """
    for step in saving(pids):
        answer = turn.act(step, lock_ms=lock_ms)
        if answer.code != 0:
            failure = f"the GPU state of process {step.pid} cannot be saved ({step.action}): {answer.cause}"
            try:
                give_back(turn, pids)
            except EngineError as worse:
                raise EngineError(f"{failure}; {worse.message}", hint=worse.hint) from None
            raise EngineError(failure, hint="the job runs on; the older save stands")


def give_back(turn: Turn, pids: Sequence[int], device_map: str | None = None) -> None:
    """Whatever state the processes are in: restore and unlock those that can be.

    One that runs is left alone, so this may follow CRIU's plugin, which gives back by itself.

    Raises:
        EngineError: some do not run afterwards.
    """
    causes = []
    for step in letting_go(survey(turn, pids)):
        answer = turn.act(step, device_map=device_map)
        if answer.code != 0:
            causes.append(f"{step.action} of process {step.pid}: {answer.cause}")
    still = stuck(survey(turn, pids))
    if still:
        reason = f" ({'; '.join(causes)})" if causes else ""
        raise EngineError(
            f"the job stands still on its GPU: {still}{reason}",
            hint="`cuda-checkpoint --get-state --pid PID` tells more; restore the job from its last checkpoint",
        )
