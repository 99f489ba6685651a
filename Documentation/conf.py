# SPDX-License-Identifier: GPL-2.0
"""Configuration of Sphinx, which builds the pages as HTML and as manual pages.

The kernel's directive `kernel-doc` takes the descriptions of calls from the headers. Its code is in the kernel's
source at $srctree, which `lab.py docs` sets. In a kernel tree the kernel's configuration replaces this one.
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

# Page, name of the manual page, one-line description (NAME), no author, section.
man_pages = [
    (page, name, about, "", section)
    for page, name, section, about in (
        ("overview", "kofi", 7, "kernel implementation of the libfabric interfaces: objects and rules"),
        ("install", "kofi_install", 7, "install kOFI, and build modules that use it"),
        ("guide", "kofi_guide", 7, "write a first consumer of the fabric interfaces in the kernel"),
        ("consumer", "kofi_consumer", 7, "wait, handle errors, size queues and shut down in a consumer"),
        ("glossary", "kofi_glossary", 7, "terms of kOFI beside those of the RDMA core and the kernel"),
        ("nvme", "kofi_nvme", 7, "NVMe over Fabrics host of the samples, a block driver on kOFI"),
        ("verbs", "kofi_verbs", 7, "fabric interfaces for authors of code on ib_verbs and rdma_cm"),
        ("libfabric", "kofi_libfabric", 7, "differences from user-space libfabric"),
        ("kfabric", "kofi_kfabric", 7, "port code from kfabric's kfi_* names"),
        ("security", "kofi_security", 7, "access rights of peers, processes and modules"),
        ("performance", "kofi_performance", 7, "measured costs of the fabric interfaces"),
        ("debugging", "kofi_debugging", 7, "log messages, tracepoints and debugfs of the fabric interfaces"),
        ("client", "kofi_client", 7, "kofi, the command-line client of /dev/kofi"),
        ("rdm", "kofi_rdm", 7, "reliable-datagram endpoints (FI_EP_RDM) over RDMA devices"),
        ("loop", "kofi_loop", 7, "provider for endpoints on the same host"),
        ("testing", "kofi_testing", 7, "tests of kOFI"),
        ("objects", "fi_control", 9, "operations that all fabric objects have, and the registry of open objects"),
        ("info", "fi_getinfo", 9, "list the providers, devices and endpoint types that can be opened"),
        ("fabric", "fi_fabric", 9, "open the devices of one kind in a network namespace"),
        ("domain", "fi_domain", 9, "open a device, and set the threading model of its objects"),
        ("eq", "fi_eq", 9, "event queues"),
        ("cq", "fi_cq", 9, "completion queues"),
        ("cntr", "fi_cntr", 9, "counters of completed operations"),
        ("poll", "fi_poll", 9, "poll sets of completion queues and counters"),
        ("wait_set", "fi_wait", 9, "wait sets and native wait objects"),
        ("mr", "fi_mr", 9, "memory regions for local and remote access"),
        ("endpoint", "fi_endpoint", 9, "connected (FI_EP_MSG) and reliable-datagram (FI_EP_RDM) endpoints"),
        ("scalable", "fi_scalable_ep", 9, "datagram endpoints with several transmit and receive contexts"),
        ("srx", "fi_srx_context", 9, "receive contexts that several endpoints share"),
        ("stx", "fi_stx_context", 9, "transmit contexts that several datagram endpoints share"),
        ("passive_endpoint", "fi_passive_ep", 9, "listen for connection requests"),
        ("av", "fi_av", 9, "address vectors"),
        ("av_set", "fi_av_set", 9, "address sets, the members of collective operations"),
        ("cm", "fi_cm", 9, "connect and disconnect endpoints, and read their addresses"),
        ("msg", "fi_msg", 9, "send and receive messages"),
        ("rma", "fi_rma", 9, "read and write the memory of a peer"),
        ("atomic", "fi_atomic", 9, "atomic operations on the memory of a peer"),
        ("tagged", "fi_tagged", 9, "send and receive tagged messages"),
        ("collective", "fi_collective", 9, "collective operations of an offload provider"),
        ("trigger", "fi_trigger", 9, "triggered operations (not implemented)"),
        ("peer", "fi_peer", 9, "share objects between providers"),
    )
]


def name_manuals(app, doctree):
    """Replaces a reference to another page by the name of its manual page."""
    if app.builder.name != "man":
        return
    names = {page: (name, f"({section})") for page, name, *_, section in man_pages}
    for lead in list(doctree.findall(addnodes.pending_xref)):
        if lead["reftype"] == "doc" and lead["reftarget"] in names:
            name, section = names[lead["reftarget"]]
            lead.replace_self([nodes.strong("", name), nodes.Text(section)])


def nest(_app, doctree):
    """Moves the description of a function below its prototype; kernel-doc puts it beside the prototype."""
    for said in list(doctree.findall(nodes.container)):
        before = said.parent[said.parent.index(said) - 1]
        if "kernelindent" in said["classes"] and isinstance(before, addnodes.desc):
            said.parent.remove(said)
            before[-1] += said.children


def join_rows(_app, doctree):
    """Merges a row without a second column into the row before it: several names share one description."""
    for table in list(doctree.findall(nodes.table)):
        before = None
        for row in list(table.findall(nodes.row)) if table[0]["cols"] == 2 else ():
            if before is not None and not row[1].children:
                before[0][0] += [nodes.Text(" "), *row[0][0].children]
                row.parent.remove(row)
            else:
                before = row


def list_rows(app, doctree, _page):
    """Replaces each table of two columns by a definition list in manual pages."""
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
    """Connects the functions above to the events of Sphinx."""
    app.connect("doctree-read", name_manuals)
    app.connect("doctree-read", nest)
    app.connect("doctree-read", join_rows)
    app.connect("doctree-resolved", list_rows)
