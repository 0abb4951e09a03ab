"""The errors a user can meet. Each message says what was expected, what was found, where, and what to do next."""


class ZooError(Exception):
    """Base of every error the package raises on purpose; the command line prints it as one line, exit code 1."""

    exit_code = 1


class InputError(ZooError, ValueError):
    """What was passed in cannot be used: a bad array, name, field, option or file format (exit code 2)."""

    exit_code = 2


class UnknownName(InputError):
    """A name that nothing answers to; the message offers the near ones."""


class MissingWeights(ZooError):
    """Weights that are neither on this machine nor to be had right now."""


class CorruptFile(ZooError):
    """A stored file whose contents do not match its checksum or format; it is set aside, never deleted."""


class ZooWarning(UserWarning):
    """Something worth knowing that does not make a result wrong."""
