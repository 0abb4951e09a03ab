"""Files, arrays, settings and progress: what every other layer shares."""
