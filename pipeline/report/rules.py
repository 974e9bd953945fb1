"""Every rule as a reader of a report meets it: a sentence, and the page that explains it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.accepted import UNUSED
from pipeline.audit.catalogue import SEVERITIES
from pipeline.report.judged import AUDIT, DRIFT

_PAGE = "docs/findings.md"


@dataclass(frozen=True)
class RuleText:
    """A rule for people. `page` is a file of the project with the place in it: "docs/….md#pins".

    `severity` is the usual one, `verbs` which verbs ask it.
    """

    id: str
    severity: str
    text: str
    page: str
    verbs: tuple[str, ...]

    @property
    def url(self) -> str:
        """Address of the page where the repository has one, "" elsewhere.

        The program does not know where a checkout is published; GitHub Actions does, and says it in
        these variables.
        """
        names = ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_SHA")
        server, repository, commit = (os.environ.get(name, "") for name in names)
        if not (server.startswith("https://") and repository and commit):
            return ""
        return f"{server}/{repository}/blob/{commit}/{self.page}"


# Section of the page -> rule -> what it says.
_AUDITS: Mapping[str, Mapping[str, str]] = {
    "pins": {
        "pin-upgraded": "A distribution is newer than the lock says.",
        "pin-downgraded": "A distribution is older than the lock says.",
        "build-changed": "A distribution is the locked version, built by somebody else.",
        "pin-changed": "A distribution is not at the locked version; the two have no order.",
        "not-in-lock": "A distribution is in the image that the lock does not have.",
        "distribution-missing": "The lock has a distribution that the image has not.",
    },
    "requirements": {
        "requirement-unsatisfied": "A distribution wants what the image does not have.",
        "requirement-unreadable": "A Requires-Dist is no PEP 508 requirement.",
    },
    "imports": {
        "import-broken": "A module is imported that no file of the image provides.",
    },
    "metadata": {
        "duplicate-dist": "One project is installed twice in one directory.",
        "shadowed-dist": "One project is installed in two directories.",
        "broken-metadata": "A dist-info does not identify a distribution.",
        "site-missing": "The image has no site-packages where its base has one.",
        "site-not-judged": "Another directory holds distributions that are not judged.",
    },
    "record": {
        "broken-record": "A RECORD cannot be read.",
        "record-missing": "A distribution has no RECORD, so its files are not checked.",
        "record-row-outside-root": "A RECORD names paths outside of the installation.",
        "file-missing": "A RECORD names a file that is not there.",
        "file-modified": "A file's bytes are not those that its RECORD names.",
        "file-conflict": "Two distributions claim one file with different bytes.",
        "unowned-file": "A file in site-packages belongs to no distribution.",
    },
    "patches": {
        "patch-lost": "The final image does not hold a patch of the chain.",
    },
    "compiled-files": {
        "stale-bytecode": "A compiled file is of another source than the one beside it.",
        "stale-jit": "Compiled kernels are of sources that were edited since.",
    },
    "families": {
        "family-mixed": "Packages that are one thing stand at different versions.",
    },
    "machines": {
        "wrong-arch": "A binary is for another machine than the image's.",
    },
    "origins": {
        "origin-editable": "A distribution is an editable installation.",
        "origin-direct-url": "A distribution came from a URL that the lock does not vouch for.",
        "origin-changed": "The same version now comes from elsewhere.",
    },
    "shared-libraries": {
        "library-copies": "The image has a shared library in several builds.",
    },
    "configuration-of-installers": {
        "installer-configured": "The image tells pip or uv where packages come from.",
    },
    "accepted-findings": {
        "baseline-unused": "An entry of the baseline file accepts nothing that is there.",
    },
}


_DRIFTS: Mapping[str, str] = {
    "drift-down": "A package is older than it was.",
    "drift-up": "A package is newer than it was.",
    "drift-moved": "A package is at another version; the two have no order.",
    "drift-build": "A package is the same version, built anew or by somebody else.",
    "drift-library": "The loader takes another copy of a shared library.",
    "drift-added": "A package is new.",
    "drift-removed": "A package is gone.",
    "drift-renamed": "A package goes by another name.",
    "drift-origin": "The same version now comes from elsewhere.",
    "drift-files": "Files of a package differ, and its version does not say so.",
    "drift-lone-files": "Files that no package owns differ.",
    "drift-base": "The images stand on different bases.",
    "drift-setting": "What a container starts with has changed.",
}
_BOTH = ("requirement-unsatisfied", "family-mixed", UNUSED)


def _rules() -> dict[str, RuleText]:
    rules = {}
    for anchor, texts in (*_AUDITS.items(), ("drift", _DRIFTS)):
        for rule, text in texts.items():
            verb = DRIFT if texts is _DRIFTS else AUDIT
            verbs = (AUDIT, DRIFT) if rule in _BOTH else (verb,)
            rules[rule] = RuleText(rule, SEVERITIES[rule], text, f"{_PAGE}#{anchor}", verbs)
    return rules


RULES: Mapping[str, RuleText] = _rules()
