"""Work on tasks side by side, and take their results in order."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def map_in_order(
    submit: Callable[[T], Future[R]],
    tasks: Iterable[T],
    ahead: int,
    weigh: Callable[[T], int] = lambda _: 0,
    most_weight: float = math.inf,
) -> Generator[tuple[T, R]]:
    """Submit tasks; yield each with its result, in order.

    At most `ahead` tasks, which weigh at most `most_weight` unless it is one, are submitted and not
    yielded. The first error is raised in its turn; then, or when the generator is closed, tasks
    that have not begun are cancelled.
    """
    waiting: deque[tuple[T, Future[R]]] = deque()
    weight = 0
    try:
        for task in tasks:
            while waiting and (len(waiting) >= ahead or weight + weigh(task) > most_weight):
                first, future = waiting.popleft()
                weight -= weigh(first)
                yield first, future.result()
            waiting.append((task, submit(task)))
            weight += weigh(task)
        while waiting:
            first, future = waiting.popleft()
            yield first, future.result()
    finally:
        for _, future in waiting:
            future.cancel()


def each_in_threads(work: Callable[[T], R], tasks: Sequence[T]) -> list[R]:
    """Call `work` for each task, each in its own thread if there are several; return the results.

    Raises the first error, once all calls have ended.
    """
    if len(tasks) < 2:
        return [work(task) for task in tasks]
    found = map_in_threads(work, tasks, len(tasks), len(tasks) + 1)
    return [result for _, result in found]


def map_in_threads(
    work: Callable[[T], R], tasks: Iterable[T], threads: int, ahead: int
) -> Generator[tuple[T, R]]:
    """Call `work` for each task in threads; yield tasks and results as `map_in_order`."""
    with ThreadPoolExecutor(threads) as pool:
        yield from map_in_order(lambda task: pool.submit(work, task), tasks, ahead)
