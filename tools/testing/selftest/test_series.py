# SPDX-License-Identifier: GPL-2.0
"""Tests of the selection of a series of Linux by KERNEL=, KDIR= and `make next`."""

import contextlib
import io
import os
import re
import subprocess
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from kofi_lab import kdir, kernel, series, source, trial
from kofi_lab.lane import lane
from kofi_lab.output import LabError
from kofi_lab.paths import CONFIGS, TREE
from kofi_lab.results import FAILED, PASSED

KNOWN = ("7.2", "7.3")
# The series that Kbuild lists, as messages have them.
LISTED = series.known_text()
CONFIG = "CONFIG_MODULES=y\nCONFIG_RUST=y\nCONFIG_INFINIBAND=m\nCONFIG_INFINIBAND_ADDR_TRANS=y\n"


class WithSeries(unittest.TestCase):
    """A test case in which Linux 7.2 and 7.3 are the known series, and KERNEL is not set."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        for patch in (
            mock.patch.object(series, "KNOWN", KNOWN),
            mock.patch.object(series, "TRIAL", []),
            mock.patch.object(source, "SOURCES", self.folder),
            mock.patch.dict(os.environ),
        ):
            patch.start()
            self.addCleanup(patch.stop)
        os.environ.pop("KERNEL", None)

    def cached(self, *releases: str) -> None:
        """Puts sources of these releases into the cache."""
        for release in releases:
            (self.folder / f"linux-{release}").mkdir()


class ChoiceTest(WithSeries):
    """Selection of a series by KERNEL=."""

    def test_the_newest_known_series_comes_first(self) -> None:
        self.assertEqual(["7.3", "7.2"], series.wanted())

    def test_kernel_names_one(self) -> None:
        os.environ["KERNEL"] = "7.2"
        self.assertEqual(["7.2"], series.wanted())

    def test_another_one_is_refused_with_the_known_ones(self) -> None:
        for name in ("7.4", "6.12", "7", "7.2.12", "~/src/linux"):
            os.environ["KERNEL"] = name
            with self.assertRaisesRegex(LabError, f"^KERNEL={name} is no series.*7.2 and 7.3$"):
                series.wanted()

    def test_kbuild_lists_the_known_series(self) -> None:
        listed = series.listed((TREE / "Kbuild").read_text())
        self.assertEqual(sorted(listed, key=series.numbers), list(listed))
        with self.assertRaises(LabError):
            series.listed("obj-m := kofi.o\n")

    def test_the_pages_name_the_known_series(self) -> None:
        named = r"Linux (\d+\.\d+(?: (?:and|or) \d+\.\d+)+)"
        for page in ("README.md", "Documentation/install.rst", "Documentation/testing.rst"):
            found = re.findall(named, (TREE / page).read_text())
            self.assertTrue(found, page)
            self.assertEqual({LISTED}, {words.replace(" or ", " and ") for words in found}, page)

    def test_a_fragment_of_a_series_is_added_to_those_of_its_lane(self) -> None:
        uml = lane("uml")
        older, newer = (kernel.of(uml, Path(f"linux-{release}")) for release in ("7.2.12", "7.3.4"))
        self.assertEqual(uml.fragments, kernel.fragments(uml, newer.source))
        self.assertEqual((*uml.fragments, "7.2"), kernel.fragments(uml, older.source))
        self.assertNotEqual(older.build.name.split("-")[-1], newer.build.name.split("-")[-1])
        known = series.listed((TREE / "Kbuild").read_text())
        named = [path.stem for path in CONFIGS.glob("[0-9]*.config")]
        self.assertLessEqual(set(named), set(known))


class SourceTest(WithSeries):
    """Selection of a source in the cache or the archive."""

    def ensure(self, archive: list[str] | LabError) -> str:
        """Returns the name of the selected source if the archive has these series; a download begins with `-`."""
        source.ensure.cache_clear()
        self.addCleanup(source.ensure.cache_clear)
        with (
            mock.patch.object(source, "archive", side_effect=[archive]) as asked,
            mock.patch.object(source, "download", side_effect=lambda name: Path(f"-{name}")),
            mock.patch.object(source, "mirror", return_value="http://a.mirror"),
            contextlib.redirect_stdout(io.StringIO()) as output,
        ):
            try:
                return source.ensure().name
            finally:
                self.asked, self.output = asked.called, output.getvalue()

    def test_the_newest_release_of_the_series_in_the_cache(self) -> None:
        self.cached("7.2.12", "7.3.4", "7.3.10", "7.30.1", "7.4.1")
        self.assertEqual("linux-7.3.10", self.ensure([]))
        self.assertFalse(self.asked)
        os.environ["KERNEL"] = "7.2"
        self.assertEqual("linux-7.2.12", self.ensure([]))
        self.assertFalse(self.asked)

    def test_a_newer_series_in_the_archive_is_taken_before_an_older_one_in_the_cache(self) -> None:
        self.cached("7.2.12")
        self.assertEqual("-7.3", self.ensure(["7.2", "7.3", "7.4"]))
        self.assertEqual("linux-7.2.12", self.ensure(["7.2", "7.4"]))
        self.assertEqual("linux-7.2.12", self.ensure([]))

    def test_the_cache_is_used_if_the_archive_cannot_be_read(self) -> None:
        self.cached("7.2.12")
        self.assertEqual("linux-7.2.12", self.ensure(LabError("no network\nat all")))
        self.assertEqual("linux-7.2.12 is taken from the cache: no network\n", self.output)

    def test_a_series_that_is_in_neither_cache_nor_archive_is_an_error(self) -> None:
        with self.assertRaisesRegex(LabError, "has no source of Linux 7.3 or 7.2$"):
            self.ensure(["7.1", "7.4"])
        os.environ["KERNEL"] = "7.2"
        with self.assertRaisesRegex(LabError, "has no source of Linux 7.2$"):
            self.ensure(["7.3"])
        with self.assertRaisesRegex(LabError, "^no network"):
            self.ensure(LabError("no network"))


class KernelTest(WithSeries):
    """Checks of the series of the kernel that KDIR names."""

    def inspect(self, release: str) -> dict[str, str]:
        """Returns the configuration that kdir.inspect() reads from a kernel of this release."""
        (self.folder / "Makefile").touch()
        (self.folder / ".config").write_text(CONFIG)
        path = self.folder / kdir.RELEASE
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{release}\n")
        return kdir.inspect(self.folder)

    def test_an_older_kernel_is_refused_with_the_known_series(self) -> None:
        for release in ("6.12.90-amd64", "7.1.9"):
            with self.assertRaisesRegex(LabError, f"is Linux {release}, .* does not build on: .* 7.2 and 7.3$"):
                self.inspect(release)

    def test_known_and_newer_kernels_are_taken(self) -> None:
        for release in ("7.2.0-rc1", "7.2.12", "7.3.4-1-amd64", "7.10.0", "8.0.1"):
            self.assertEqual("y", self.inspect(release)["CONFIG_RUST"])

    def kbuild(self, version: str, *arguments: str) -> subprocess.CompletedProcess:
        """Runs make on Kbuild with the variables of a kernel of this series."""
        major, minor = version.split(".")
        return subprocess.run(
            ["make", "-sf", "-", f"VERSION={major}", f"PATCHLEVEL={minor}", f"src={TREE}", "obj=.", *arguments],
            input="empty :=\nspace := $(empty) $(empty)\nall: ; @echo $(RUSTFLAGS_rust/kofi.o)\ninclude $(src)/Kbuild\n",
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
        )

    def test_kbuild_refuses_an_older_kernel_in_one_sentence(self) -> None:
        for version in ("6.12", "7.1"):
            answer = self.kbuild(version, "CONFIG_RUST=y")
            self.assertIn(f"kOFI is tested on Linux {LISTED} and does not build on {version}.", answer.stderr)
            self.assertEqual(2, answer.returncode)
            # `make clean` works there.
            self.assertEqual(0, self.kbuild(version).returncode)

    def test_kbuild_prints_that_a_newer_kernel_is_not_tested(self) -> None:
        for version in ("7.90", "99.0"):
            answer = self.kbuild(version, "CONFIG_RUST=y")
            self.assertEqual(0, answer.returncode, answer.stderr)
            self.assertIn(f"kOFI is tested on Linux {LISTED}, not yet on {version}\n", answer.stdout)
            self.assertNotIn("kofi_before", answer.stdout)

    def test_kbuild_sets_a_cfg_for_an_older_series(self) -> None:
        for version, is_older in (("7.2", True), ("7.3", False)):
            answer = self.kbuild(version, "CONFIG_RUST=y")
            self.assertEqual("", answer.stderr)
            self.assertNotIn("tested", answer.stdout)
            self.assertEqual(is_older, "--cfg kofi_before_7_3" in answer.stdout)


LOG = """\
In file included from /k/include/a.h:8:
/t/rust/util/pages.c:12:9: error: call to undeclared function 'x' [-Wy]
   12 |         x();
/t/rust/util/pages.c:13:9: warning: unused variable 'z'
error[E0432]: unresolved import `kernel::sync::Gone`
  --> rust/fi/cq.rs:21:9
   |
21 |         Gone,
error[E0432]: unresolved import `kernel::sync::Gone`
  --> rust/fi/cq.rs:21:9
error: aborting due to 2 previous errors
make[3]: *** [/k/scripts/Makefile.build:365: rust/kofi.o] Error 1
ERROR: modpost: "gone" [/t/kofi.ko] undefined!
"""


class TrialTest(WithSeries):
    """Trials of a series that is newer than the known ones."""

    def test_errors_of_a_build_are_listed_once_each_with_their_place(self) -> None:
        self.assertEqual(
            [
                "/t/rust/util/pages.c:12:9: error: call to undeclared function 'x' [-Wy]",
                "rust/fi/cq.rs:21:9: error[E0432]: unresolved import `kernel::sync::Gone`",
                'ERROR: modpost: "gone" [/t/kofi.ko] undefined!',
            ],
            trial.errors(LOG),
        )

    @contextlib.contextmanager
    def archive(self, *names: str, **parts: object) -> Iterator[None]:
        """Patches the series in the archive, and the results of parts of the trial; exceptions are raised."""
        ends = {"configure": [], "compile_kernel": None, "build": [], **parts}
        with contextlib.ExitStack() as stack:
            stack.enter_context(mock.patch.object(source, "archive", return_value=list(names)))
            stack.enter_context(
                mock.patch.object(source, "download", side_effect=lambda name: self.folder / f"linux-{name}.1")
            )
            stack.enter_context(mock.patch.object(trial.setup, "ensure"))
            stack.enter_context(mock.patch.object(kernel, "build_lock", contextlib.nullcontext))
            stack.enter_context(mock.patch.object(kernel, "log", return_value=self.folder / "log"))
            for name, end in ends.items():
                where = trial.tree if name == "build" else kernel
                effect = {"side_effect": end} if isinstance(end, Exception) else {"return_value": end}
                stack.enter_context(mock.patch.object(where, name, **effect))
            yield

    def run_trial(self, outcomes: tuple[str, ...] = (PASSED,)) -> tuple[int, str]:
        """Runs a trial whose tests have these outcomes. Returns its exit status and its output."""

        def lanes(results: trial.Results, choice: trial.suite.Choice, lanes: list[str], _: object) -> None:
            self.assertEqual([trial.LANE], lanes)
            self.assertTrue(choice.scenarios(lane(trial.LANE)))
            for number, outcome in enumerate(outcomes):
                results.add(trial.LANE, f"test{number}", outcome, "reason")

        with (
            mock.patch.object(trial.suite, "run_lanes", side_effect=lanes),
            contextlib.redirect_stdout(io.StringIO()) as output,
        ):
            code = trial.run()
        return code, output.getvalue()

    def test_no_newer_series_is_no_failure(self) -> None:
        with self.archive("6.12", "7.2", "7.3"):
            code, output = self.run_trial()
        self.assertEqual(0, code)
        self.assertIn("no series of Linux newer than 7.3", output)

    def test_the_newest_series_is_tried(self) -> None:
        with self.archive("7.3", "7.4", "8.1", "7.10"):
            code, output = self.run_trial()
            self.assertEqual(["8.1"], series.wanted())
        self.assertEqual(0, code)
        self.assertIn("Linux 8.1.1: no failures; 8.1 can be added to kofi-series in Kbuild", output)

    def test_failures_are_listed(self) -> None:
        with self.archive("7.4", configure=["CONFIG_A: asked for y, got n"]):
            code, output = self.run_trial((PASSED, FAILED))
        self.assertEqual(1, code)
        self.assertTrue(
            output.endswith(
                "Linux 7.4.1: 2 failures:\n  configuration: CONFIG_A: asked for y, got n\n  test: test1  reason\n"
            ),
            output,
        )

    def test_no_test_runs_without_modules(self) -> None:
        with self.archive("7.4", build=trial.tree.ModuleError(f"modules for uml:\n{LOG}")):
            code, output = self.run_trial((FAILED,))
        self.assertEqual(1, code)
        self.assertIn("3 failures:\n  modules: /t/rust/util/pages.c:12:9", output)
        self.assertNotIn("test0", output)

    def test_no_module_is_built_without_a_kernel(self) -> None:
        with self.archive("7.4", compile_kernel=LabError("building failed\nmuch more"), build=AssertionError()):
            code, output = self.run_trial()
        self.assertEqual(1, code)
        self.assertIn("1 failures:\n  kernel: building failed\n", output)


if __name__ == "__main__":
    unittest.main()
