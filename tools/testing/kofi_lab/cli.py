# SPDX-License-Identifier: GPL-2.0
"""Command line of lab.py: one verb for each task."""

import argparse
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path, PurePath

from . import bench, conformance, demo, docs, guest, install, installed, intree, kdir, kernel
from . import module, plan, prose, setup, suite, timings, tree, trial
from .lane import LANES, lane
from .output import LabError, print_line
from .paths import CACHE
from .results import Results
from .session import Session


def main(arguments: list[str]) -> int:
    """Runs one verb. Prints a LabError without a traceback and returns 1; returns 130 on ctrl-c."""
    options = parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return options.verb(options) or 0
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        guest.end_all()
        print("\nlab: interrupted", file=sys.stderr)
        return 130


MODULE_HELP = "a folder of modules to build against kOFI and load"


def parser() -> argparse.ArgumentParser:
    """Returns the parser of all verbs and their arguments."""
    top = argparse.ArgumentParser(prog="lab.py", description="Test lab of kOFI")
    verbs = top.add_subparsers(required=True, metavar="VERB")

    def verb(name: str, function: Callable, summary: str) -> argparse.ArgumentParser:
        command = verbs.add_parser(name, help=summary, description=summary)
        command.set_defaults(verb=function)
        return command

    verb("setup", do_setup, "install packages, bindgen and the kernel's source")
    command = verb("kernels", do_kernels, "build the test kernels")
    command.add_argument("lanes", nargs="*", help="all if none is named")
    command = verb("build", do_build, "build the modules for lanes")
    command.add_argument("lanes", nargs="*", help="all if none is named")
    command = verb("run", do_run, "boot one lane and run scenarios or scripts in it")
    command.add_argument("lane", choices=LANES)
    command.add_argument("names", nargs="*", help="names of scenarios in plan.toml")
    command.add_argument("--script", type=Path, action="append", default=[], help="path of a script to run")
    command.add_argument("--arguments", default="", help="arguments of the scripts")
    text = "time without progress after which a script is killed, on the plain lane"
    command.add_argument("--seconds", type=int, default=60, help=text)
    command.add_argument("--ko", type=Path, action="append", default=[], help="path of one more module")
    command.add_argument("--module", type=Path, action="append", default=[], help=MODULE_HELP)
    command.add_argument("--no-build", action="store_true", help="build nothing: load only --ko modules")
    command.add_argument("--cpus", type=int, default=0, help="CPUs of the guest, those of the lane by default")
    command.add_argument("--append", default="", help="more parameters for the kernel's command line")
    command.add_argument("--quiet", action="store_true", help="write the console to the log only")
    command = verb("module", do_module, "build a folder of out-of-tree modules against kOFI")
    command.add_argument("folder", type=Path)
    command.add_argument("--lane", action="append", choices=LANES, help="plain if none is named")
    command = verb("bench", do_bench, "compare kOFI with raw verbs and write bench.json")
    command.add_argument("lanes", nargs="*", help="native and plain if none is named")
    command.add_argument("--rounds", type=int, default=9)
    command = verb("test", do_test, "run all tests: static checks, then the scenarios of each lane")
    command.add_argument("pattern", nargs="?", default="", help="part of the test's name; * matches anything")
    command.add_argument("--lane", action="append", choices=LANES, help="only this lane")
    command.add_argument("--changed", action="store_true", help="only tests that the last changes affect")
    command = verb("soak", do_soak, "run the long tests, on the lanes that plan.toml has for them")
    command.add_argument("pattern", nargs="?", default="")
    command.add_argument("--lane", action="append", choices=LANES, help="only this lane")
    verb("timings", do_timings, "print the longest scenarios and KUnit cases of past runs")
    verb("next", do_next, "test the newest Linux series in the archive if it is newer than all known ones")
    verb("demo", do_demo, "exchange messages between all pairs of samples, in a virtual machine")
    command = verb("modules", do_modules, "run the kernel's make for a target, with a kernel's build folder")
    command.add_argument("kdir", type=Path)
    command.add_argument("target", nargs="?", default="modules")
    command.add_argument("variables", nargs="*", help="variables for the kernel's make")
    command = verb("install", do_install, "install the modules, the consumers' build files and the client")
    command.add_argument("kdir", type=Path)
    command.add_argument("variables", nargs="*", help="DESTDIR, PREFIX, CLIENT; others for the kernel's make")
    command = verb("uninstall", do_uninstall, "remove the files that install installed")
    command.add_argument("kdir", type=Path)
    command.add_argument("variables", nargs="*", help="DESTDIR, PREFIX, RELEASE")
    command = verb("intree", do_intree, "copy kOFI into a kernel's source tree")
    command.add_argument("tree", type=Path)
    command.add_argument("--undo", action="store_true", help="restore the tree to what it was before")
    command = verb("consumer", do_consumer, "make a folder that builds of consumers use as KOFI=")
    command.add_argument("home", type=Path)
    how = command.add_mutually_exclusive_group()
    how.add_argument("--link", type=Path, metavar="FOLDER", help="make HOME a symbolic link to this folder")
    how.add_argument("--remove", action="store_true", help="remove the symbolic link HOME")
    command = verb("shell", do_shell, "boot an interactive guest with the devices rxe and siw")
    command.add_argument("lane", nargs="?", default="plain", choices=LANES)
    command.add_argument("--module", type=Path, action="append", default=[], help=MODULE_HELP)
    command = verb("conformance", do_conformance, "write the table of contract lines and their tests")
    command.add_argument("--check", action="store_true", help="only check that it is up to date")
    verb("prose", do_prose, "count unclear wording of comments and pages, and lower the limits in prose.toml")
    verb("docs", do_docs, "build Documentation/ as HTML and as manual pages")
    verb("clean", do_clean, "remove kernels, builds and logs from the cache")
    return top


def do_setup(_: argparse.Namespace) -> None:
    """Runs the verb setup."""
    setup.ensure()
    print_line("all packages and tools that the lab needs are installed")


def do_kernels(options: argparse.Namespace) -> None:
    """Runs the verb kernels."""
    setup.ensure()
    for name in options.lanes or LANES:
        print_line(f"{name}={kernel.ensure(lane(name)).build}")


def do_build(options: argparse.Namespace) -> None:
    """Runs the verb build."""
    setup.ensure()
    for name in options.lanes or LANES:
        built = tree.build(kernel.ensure(lane(name)))
        print_line(f"{name}: " + " ".join(module.name for module in built))


def do_run(options: argparse.Namespace) -> int:
    """Runs the verb run. Returns the exit status."""
    setup.ensure()
    target = kernel.ensure(lane(options.lane))
    modules = [] if options.no_build else tree.build(target)
    results = Results()
    # If several lanes have a scenario of this name, the one of this lane is used: it is sorted last.
    rows = sorted(plan.scenarios(), key=lambda item: item.lane == options.lane)
    chosen = list({item.name: item for item in rows if item.name in options.names}.values())
    if missing := set(options.names) - {item.name for item in chosen}:
        raise LabError(f"plan.toml has no scenario called {', '.join(sorted(missing))}")
    for script in options.script:
        chosen.append(plan.Scenario(script.stem, script, options.seconds, arguments=options.arguments))
    if any(scenario.templates for scenario in chosen):
        modules += installed.build_templates(target)
    user_modules = [built for folder in options.module for built in module.build(target, folder)]
    if user_modules and not chosen:
        chosen.append(module.scenario(user_modules, options.seconds))
    modules += user_modules
    session = Session(target, [*modules, *options.ko], results, cpus=options.cpus)
    session.parameters, session.echo = options.append, not options.quiet
    session.run(chosen)
    results.report()
    print_line(f"console: {session.logs[-1]}" if session.logs else "no scenario was run")
    return 0 if results.good else 1


def do_module(options: argparse.Namespace) -> None:
    """Runs the verb module."""
    setup.ensure()
    for name in options.lane or ["plain"]:
        for built in module.build(kernel.ensure(lane(name)), options.folder):
            print_line(f"{name}: {built}")


def do_test(options: argparse.Namespace) -> int:
    """Runs the verb test. Returns the exit status."""
    if options.changed:
        return suite.test_changes()
    return suite.test(options.pattern, options.lane or list(LANES))


def do_soak(options: argparse.Namespace) -> int:
    """Runs the verb soak. Returns the exit status."""
    setup.ensure()
    return suite.soak(options.pattern, options.lane or list(LANES))


def do_timings(_: argparse.Namespace) -> None:
    """Runs the verb timings."""
    timings.report()


def do_next(_: argparse.Namespace) -> int:
    """Runs the verb next. Returns the exit status."""
    return trial.run()


def do_demo(_: argparse.Namespace) -> int:
    """Runs the verb demo. Returns the exit status."""
    setup.ensure()
    return demo.run()


def do_bench(options: argparse.Namespace) -> None:
    """Runs the verb bench."""
    setup.ensure(*setup.BENCH)
    bench.run(options.lanes or bench.LANES, options.rounds)


def do_modules(options: argparse.Namespace) -> int:
    """Runs the verb modules. Returns make's exit status."""
    return kdir.make(options.kdir, options.target, kernel_variables(options.variables))


# Variables of kOFI's Makefile. All others on a command line are passed to the kernel's make.
KOFI_VARIABLES = set("CHANGED CLIENT DESTDIR KDIR KERNEL KERNELRELEASE LANE PREFIX RELEASE T".split())


def kofi_variables(variables: list[str]) -> dict[str, str]:
    """Returns the values of the variables of kOFI's Makefile on a command line."""
    pairs = (variable.partition("=") for variable in variables)
    return {name: value for name, _, value in pairs if name in KOFI_VARIABLES}


def kernel_variables(variables: list[str]) -> list[str]:
    """Returns the variables on a command line that are passed to the kernel's make."""
    return [variable for variable in variables if variable.partition("=")[0] not in KOFI_VARIABLES]


def system(options: argparse.Namespace) -> install.System:
    """Returns the destination of an installation, from DESTDIR and PREFIX."""
    values = kofi_variables(options.variables)
    root, prefix = values.get("DESTDIR", ""), values.get("PREFIX", "/usr/local")
    for name, value in (("DESTDIR", root or "/"), ("PREFIX", prefix)):
        if not value.startswith("/"):
            raise LabError(f"{name}={value} is no absolute path")
    return install.System(root, PurePath(prefix))


def do_install(options: argparse.Namespace) -> int:
    """Runs the verb install. Returns the exit status."""
    with_client = kofi_variables(options.variables).get("CLIENT", "y") != "n"
    return install.install(system(options), options.kdir, with_client, kernel_variables(options.variables))


def do_uninstall(options: argparse.Namespace) -> None:
    """Runs the verb uninstall."""
    release = kofi_variables(options.variables).get("RELEASE") or kdir.release(options.kdir)
    install.uninstall(system(options), release)


def do_intree(options: argparse.Namespace) -> None:
    """Runs the verb intree."""
    kernel_tree = options.tree.absolute()
    if options.undo:
        intree.remove_from(kernel_tree)
        print_line(f"removed kOFI from {kernel_tree}")
    else:
        intree.place_in(kernel_tree)
        folder = intree.resolve(kernel_tree, intree.FOLDER)
        print_line(f"placed kOFI in {folder}: CONFIG_KOFI is in the menu of InfiniBand")


def do_consumer(options: argparse.Namespace) -> None:
    """Runs the verb consumer."""
    folder = options.home.absolute()
    if options.link or options.remove:
        install.link_consumer_folder(folder, options.link)
    else:
        install.make_consumer_folder(folder)


def do_shell(options: argparse.Namespace) -> int:
    """Runs the verb shell. Returns the exit status of the guest."""
    setup.ensure()
    target = kernel.ensure(lane(options.lane))
    user_modules = [built for folder in options.module for built in module.build(target, folder)]
    return Session(target, [*tree.build(target), *user_modules], Results()).shell()


def do_conformance(options: argparse.Namespace) -> int:
    """Runs the verb conformance. Returns the exit status."""
    return conformance.run(options.check)


def do_prose(_: argparse.Namespace) -> None:
    """Runs the verb prose."""
    prose.lower()


def do_docs(_: argparse.Namespace) -> None:
    """Runs the verb docs."""
    setup.ensure(*setup.DOCS)
    docs.run()


def do_clean(_: argparse.Namespace) -> None:
    """Runs the verb clean."""
    for name in ("build", "log", "run"):
        shutil.rmtree(CACHE / name, ignore_errors=True)
    print_line(f"removed kernels, builds and logs from {CACHE}; the kernel sources stay")
