"""The old name of `zoo.app.terminal`, for modules that still import it."""

from zoo.app.terminal import plain as plain
