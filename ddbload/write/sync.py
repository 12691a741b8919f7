"""One request at a time: the baseline, and the easiest to follow."""

from __future__ import annotations

from ddbload.write.driver import Job, Transport
from ddbload.write.steps import Finished, Wait


class SyncDriver:
    """Sends in the caller's own thread."""

    def run(self, job: Job[Transport]) -> None:
        """Return when the scheduler is finished."""
        while True:
            step = job.step()
            match step:
                case Finished():
                    return
                case Wait():
                    job.sleep(job.pause(step))
                case batch:
                    answer = job.transport.send(job.items(batch.handles))
                    job.scheduler.answered(batch, answer, job.clock())

    def close(self) -> None:
        """Nothing to end."""
