"""Where networks come from: one module a source, each with `load(request) -> Model`."""
