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
        ("overview", "kofi", 7, "fabric interfaces in the kernel: objects and rules"),
        ("install", "kofi_install", 7, "installing kOFI, and building modules that use it"),
        ("guide", "kofi_guide", 7, "a first consumer of the fabric interfaces in the kernel"),
        ("verbs", "kofi_verbs", 7, "fabric interfaces for those who know verbs"),
        ("libfabric", "kofi_libfabric", 7, "fabric interfaces for those who know libfabric"),
        ("kfabric", "kofi_kfabric", 7, "porting code from kfabric's kfi_* names"),
        ("security", "kofi_security", 7, "who may reach what memory, and why"),
        ("performance", "kofi_performance", 7, "costs of the fabric interfaces, measured"),
        ("debugging", "kofi_debugging", 7, "log lines, tracepoints and debugfs of the fabric interfaces"),
        ("client", "kofi_client", 7, "the fabric interfaces for processes"),
        ("rdm", "kofi_rdm", 7, "reliable datagrams over RDMA devices, and to user-space libfabric"),
        ("loop", "kofi_loop", 7, "a provider for peers on the same host"),
        ("testing", "kofi_testing", 7, "how kOFI is tested"),
        ("objects", "fi_control", 9, "what all objects have"),
        ("info", "fi_getinfo", 9, "what can be opened"),
        ("fabric", "fi_fabric", 9, "devices of one kind in one network namespace"),
        ("domain", "fi_domain", 9, "a device, opened"),
        ("eq", "fi_eq", 9, "event queues"),
        ("cq", "fi_cq", 9, "completion queues"),
        ("cntr", "fi_cntr", 9, "counters"),
        ("poll", "fi_poll", 9, "poll sets"),
        ("wait_set", "fi_wait", 9, "wait sets and native waits"),
        ("mr", "fi_mr", 9, "memory regions"),
        ("endpoint", "fi_endpoint", 9, "ends of connections"),
        ("scalable", "fi_scalable_ep", 9, "endpoints with several transmit and receive contexts"),
        ("srx", "fi_srx_context", 9, "receive contexts shared by endpoints"),
        ("stx", "fi_stx_context", 9, "transmit contexts shared by endpoints"),
        ("passive_endpoint", "fi_passive_ep", 9, "listening for connections"),
        ("av", "fi_av", 9, "address vectors"),
        ("av_set", "fi_av_set", 9, "sets of addresses"),
        ("cm", "fi_cm", 9, "making and ending connections"),
        ("msg", "fi_msg", 9, "messages"),
        ("rma", "fi_rma", 9, "remote memory access"),
        ("atomic", "fi_atomic", 9, "atomic operations on a peer's memory"),
        ("tagged", "fi_tagged", 9, "tagged messages"),
        ("collective", "fi_collective", 9, "collective operations"),
        ("trigger", "fi_trigger", 9, "triggered operations, which are not there yet"),
        ("peer", "fi_peer", 9, "objects shared by providers"),
    )
]


def name_manuals(app, doctree):
    """Makes what leads to another page the name of that, in a manual page."""
    if app.builder.name != "man":
        return
    names = {page: (name, f"({section})") for page, name, *_, section in man_pages}
    for lead in list(doctree.findall(addnodes.pending_xref)):
        if lead["reftype"] == "doc" and lead["reftarget"] in names:
            name, section = names[lead["reftarget"]]
            lead.replace_self([nodes.strong("", name), nodes.Text(section)])


def nest(_app, doctree):
    """Puts what kernel-doc says of a function below the function, where it leaves it beside that."""
    for said in list(doctree.findall(nodes.container)):
        before = said.parent[said.parent.index(said) - 1]
        if "kernelindent" in said["classes"] and isinstance(before, addnodes.desc):
            said.parent.remove(said)
            before[-1] += said.children


def join_rows(_app, doctree):
    """Gives a row that has nothing but a name to the one before it: several names, with one meaning."""
    for table in list(doctree.findall(nodes.table)):
        before = None
        for row in list(table.findall(nodes.row)) if table[0]["cols"] == 2 else ():
            if before is not None and not row[1].children:
                before[0][0] += [nodes.Text(" "), *row[0][0].children]
                row.parent.remove(row)
            else:
                before = row


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
    app.connect("doctree-read", name_manuals)
    app.connect("doctree-read", nest)
    app.connect("doctree-read", join_rows)
    app.connect("doctree-resolved", list_rows)
