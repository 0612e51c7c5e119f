import sys

from marelab.cli import main

sys.exit(main())
