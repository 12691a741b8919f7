"""Check the prerequisites of an import or a deployment, without changing anything."""
