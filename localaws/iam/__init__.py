"""Which permissions a request to AWS needs, and whether a role's policies give them.

- `requests`: the parts of an HTTP request that matter, and who signed it
- `calls`: a request to the (action, resource) pairs that AWS would authorise
- `policies`: whether a role's policies allow such a pair
- `roles`: the policies that a role has in moto
- `template`: the roles of a CloudFormation template, and their policies
- `guard`: all of it at run time: records calls, and refuses those that AWS would refuse
- `refusals`: AWS's own answer to a refused call, in the protocol of each service
"""
