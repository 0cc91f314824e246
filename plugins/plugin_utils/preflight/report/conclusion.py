# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What it comes to, in one sentence."""

from __future__ import annotations

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.report import words
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.report.document import Document, clean


def conclusion(content: Document, findings: str) -> tuple[str, str]:
    """The sentence and its severity; good when there is nothing to do. findings: how they are called there."""
    count = content["summary"]
    if clean(content):
        return "Clean: no errors and no warnings.", "good"
    if count["errors"]:
        return f"Next: mend {findings}, then run preflight again.", "error"
    if count["absent"]:
        looked = words.counted(count["looked_at"], "host")
        return f"No errors on {looked}, but {count['absent']} not looked at: nothing is known of them.", "warning"
    if count["warnings"]:
        return f"No errors. Next: mend or waive {findings}, then run preflight again.", "warning"
    return "Nothing was judged, so nothing is known.", "error"
