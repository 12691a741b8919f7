"""Determine the permissions that an AWS request needs, and check a role's policies for them.

- `requests`: the relevant parts of an HTTP request, and its signature
- `actions`: a request as (action, resource) pairs; `s3`, `lambda_sts` and `json_services` know the
  rules of each protocol
- `policies`: a role's policies, and whether they allow such a pair
- `template`: the roles of a CloudFormation template and their policies
- `guard`: the observer that records calls, and refuses calls that AWS would refuse
- `refusals`: AWS's response to a refused call, in the protocol of each service
"""
