"""Functions as real processes: what AWS Lambda does around a handler.

- `bootstrap`: runs inside a function's process, then hands over to awslambdaric
- `runtime_api`: the Lambda Runtime API, which awslambdaric asks for events
- `environment`: the variables of a process, and what Lambda refuses
- `worker`: one process: a cold start, then one invocation after the other
- `memory`: ends processes that use more than their function may
- `pool`: the processes of one function
- `invoking`: invocations as the API sees them: synchronous, asynchronous, their limits
- `logs`: what functions print, in files and in CloudWatch Logs
"""
