from ddbload import errors as errors
from ddbload.api import RunResult, load, plan, rejects, resume, start, status, verify

__all__ = ["RunResult", "load", "plan", "rejects", "resume", "start", "status", "verify"]
__version__: str
