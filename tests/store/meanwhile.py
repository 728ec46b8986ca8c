"""What another process does between two operations of this one."""


def before_next(files, operation, action):
    """Run an action once, just before the next call of an operation of these files, such as "write"."""
    original = getattr(files, operation)

    def run(*arguments, **options):
        setattr(files, operation, original)
        action()
        return original(*arguments, **options)

    setattr(files, operation, run)
