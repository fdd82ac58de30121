import sys

from offheap.cli.main import main

sys.exit(main())
