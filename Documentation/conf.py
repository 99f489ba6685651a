# SPDX-License-Identifier: GPL-2.0
"""Sphinx's configuration: the same pages as HTML and as manual pages.

The entries of calls come from the headers, by the kernel's own directive `kernel-doc`, which is found in the
kernel's source at $srctree: `lab.py docs` sets that. In a kernel tree the kernel's configuration takes the
place of this one.
"""

import os
import sys
from pathlib import Path

from docutils import nodes
from sphinx import addnodes

sys.path.insert(0, str(Path(os.environ["srctree"]) / "Documentation" / "sphinx"))

project = "kOFI"
extensions = ["kerneldoc"]
kerneldoc_srctree = str(Path(__file__).resolve().parent.parent)
primary_domain = "c"
highlight_language = "none"
html_theme = "nature"
smartquotes = False
html_copy_source = False
man_make_section_directory = True

# Page, name, what it says of itself, nobody's name, section.
man_pages = [
    (page, name, about, "", section)
    for page, name, section, about in (
        ("guide", "kofi_guide", 7, "a first consumer of the fabric interfaces in the kernel"),
        ("security", "kofi_security", 7, "who may reach what memory, and why"),
        ("info", "fi_getinfo", 9, "what can be opened"),
        ("fabric", "fi_fabric", 9, "devices of one kind in one network namespace"),
        ("domain", "fi_domain", 9, "a device, opened"),
        ("eq", "fi_eq", 9, "event queues"),
        ("cq", "fi_cq", 9, "completion queues"),
        ("cntr", "fi_cntr", 9, "counters"),
        ("poll", "fi_poll", 9, "poll sets"),
        ("wait_set", "fi_wait", 9, "wait sets and native waits"),
        ("av", "fi_av", 9, "address vectors"),
        ("av_set", "fi_av_set", 9, "sets of addresses"),
        ("endpoint", "fi_endpoint", 9, "connected endpoints"),
        ("passive_endpoint", "fi_passive_ep", 9, "listening for connections"),
        ("mr", "fi_mr", 9, "memory regions"),
    )
]


def nest(_app, doctree):
    """Puts what kernel-doc says of a function below the function, where it leaves it beside that."""
    for said in list(doctree.findall(nodes.container)):
        before = said.parent[said.parent.index(said) - 1]
        if "kernelindent" in said["classes"] and isinstance(before, addnodes.desc):
            said.parent.remove(said)
            before[-1] += said.children


def list_rows(app, doctree, _page):
    """Makes a list of each table of two columns in a manual page: that is how those say such things."""
    if app.builder.name != "man":
        return
    for table in list(doctree.findall(nodes.table)):
        if table[0]["cols"] != 2:
            continue
        items = nodes.definition_list()
        for row in table[0].next_node(nodes.tbody):
            name, about = row
            term = nodes.term("", "", *(child for paragraph in name for child in paragraph))
            items += nodes.definition_list_item("", term, nodes.definition("", *about))
        table.replace_self(items)


def setup(app):
    """What Sphinx calls."""
    app.connect("doctree-read", nest)
    app.connect("doctree-resolved", list_rows)
