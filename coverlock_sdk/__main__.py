"""``python -m coverlock_sdk`` is the ``coverlock`` command."""

from coverlock_sdk.cli import main

if __name__ == "__main__":
    main()
