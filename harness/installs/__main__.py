"""`python -m harness.installs pythons|jdks`."""

from __future__ import annotations

import sys

from harness.installs.trials import main

if __name__ == "__main__":
    sys.exit(main())
