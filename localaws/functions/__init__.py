"""Run Lambda functions as processes, with everything that Lambda does around a handler.

- `bootstrap`: first code in a function's process; hands over to awslambdaric
- `runtime_api`: the Lambda Runtime API, from which awslambdaric fetches its events
- `environment`: environment variables of a process, and the ones that Lambda refuses
- `worker`: one process: a cold start, then one invocation after the other
- `memory`: kills processes that exceed their function's memory
- `pool`: the processes of one function
- `invoker`: synchronous and asynchronous invocations, with the limits of Lambda's API
- `logs`: log files of the processes, copied to CloudWatch Logs
"""
