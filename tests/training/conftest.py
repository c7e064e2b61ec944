import sys
from pathlib import Path

# Tests are imported by path; this lets them, and the processes they start, share one tiny run.
sys.path.insert(0, str(Path(__file__).parent))
