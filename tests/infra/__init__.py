"""Tests of the deployment: the template that `cdk deploy` would deploy, and its settings."""
