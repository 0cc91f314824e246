# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Put pip into a virtual environment without a download.

ansible-test fetches a bootstrap script of this name for its environments. Where that host cannot be reached,
this one takes the pip that Python carries and lets it install what was asked for from the configured index.
"""

from __future__ import annotations

import subprocess
import sys

# as a subprocess: called in this process, ensurepip would hide pip's own configuration from what follows
subprocess.run([sys.executable, "-m", "ensurepip", "--default-pip"], check=True, stdout=subprocess.DEVNULL)
packages = [arg for arg in sys.argv[1:] if arg not in ("--no-setuptools", "--no-wheel")]
sys.exit(subprocess.run([sys.executable, "-m", "pip", "install", *packages], check=False).returncode)
