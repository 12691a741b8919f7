"""Check what an import or a deployment needs, without changing anything."""
