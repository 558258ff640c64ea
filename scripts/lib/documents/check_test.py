# SPDX-License-Identifier: GPL-2.0
"""The checks fail on each kind of wrong name, and accept the right one beside it."""

import unittest

from . import check, plain_english

TREE = {
    "Makefile": ".PHONY: demo campaign\ndemo:\n\t@scripts/demo $(ARGS)\n",
    "scripts/campaign": "  --all) ;;\nbuild/log\n",
    "scripts/lib/ladder/rungs.py": '    "soak": (("soak",), "about it"),\n',
    "scripts/static": "check_man() { true; }\n",
    "plugin/options/options.cc": '    {"staging-kib", set_slot_size},\n',
    "plugin/base/fd.cc": "int take_fd(int number) { return number; }\n",
    "plugin/base/fd_test.cc": "TEST(Fd, ClosesOnce) {}\n",
    "kernel/drivers/gpu/drm/amd/amdkfd/kfd.c": 'refuse("GPU %u does not fit: %s");\n',
    "selftests/amdgpu_criu/query.c": "TEST_F(query, counts_records)\nTEST(no_gpu)\n",
    "selftests/e2e/scenarios/control/catalog.py": '    "render": ("one",),\n',
    "selftests/e2e/scenarios/render.sh": "scenario_one() {\n",
    "selftests/vm/run": "",
    "selftests/vm/suites/igt.suite": "[suite]\nname = igt\n",
    "selftests/vm/runner/options.py": 'add_argument("--gpus")\n',
}

# Right and wrong in turn.
MARKDOWN = (
    ("`make demo`", "`make dome`", "no make target dome"),
    ("`make demo ARGS=x`", "`make demo ARG=x`", "no variable ARG"),
    ("`make campaign ARGS=soak`", "`make campaign ARGS=soap`", "no campaign soap"),
    ("`plugin/base/fd.cc`", "`plugin/base/df.cc`", "no plugin/base/df.cc"),
    ("`base/*.cc`", "`base/*.rs`", "no base/*.rs"),
    ("`plugin/base/{fd,fd_test}.cc`", "`plugin/base/{fd,of}.cc`", "no plugin/base/{fd,of}.cc"),
    ("[x](base/fd.cc)", "[x](base/of.cc)", "no base/of.cc"),
    ("`build/log/NAME`", "`build/gol/NAME`", "nothing makes build/gol"),
    ("`fd.cc`", "`of.cc`", "nothing is named of.cc"),
    ("`query.counts_records`", "`query.counts_cords`", "query has no test counts_cords"),
    ("`query.counts_*`", "`query.tells_*`", "query has no test tells_*"),
    ("`Fd.ClosesOnce`", "`Fd.ClosesTwice`", "nothing is named Fd.ClosesTwice"),
    ("the suite `igt`", "the suite `git`", "no suite git"),
    ("the suites `igt` and `igt`", "the suites `igt` and `git`", "no suite git"),
    ("the `one` scenario", "the `two` scenario", "no scenario two"),
    ("`scripts/static man`", "`scripts/static woman`", "no check woman"),
    ("`scripts/campaign --all`", "`scripts/campaign --most`", "no option --most"),
    ("`selftests/vm/run --gpus 2`", "`selftests/vm/run --cpus 2`", "no option --cpus"),
    ("`run -- /payload/e2e/run one`", "`run -- /payload/e2e/run two`", "no scenario two"),
    ("`/payload/e2e/run @render`", "`/payload/e2e/run @tender`", "no scenario @tender"),
    ("`amdgpu.staging-kib`", "`amdgpu.staging`", "no option staging"),
    ("`AMDGPU_CRIU_STAGING_KIB=4`", "`AMDGPU_CRIU_STAGING=4`", "name AMDGPU_CRIU_STAGING"),
    ("`take_fd()`", "`make_fd()`", "no code has the name make_fd"),
    ("```\nmake demo\n```", "```\nmake dome\n```", "no make target dome"),
    ("```text\nmake dome\n```", "", ""),
)
MANUAL = (
    (".B \\-\\-gpus", ".B \\-\\-cpus", "no option --cpus"),
    (".BI amdgpu.staging\\-kib= size", ".BI amdgpu.staging= size", "no option staging"),
)
RST = (
    ("``GPU N does not fit``", "``GPU N does not suit``", "no message has: does not suit"),
    (".. kernel-doc:: drivers/gpu/drm/amd/amdkfd/kfd.c", ".. kernel-doc:: drivers/x.c",
     "no drivers/x.c"),
)


class Documents(unittest.TestCase):
    def faults(self, name, text):
        return check.faults(TREE | {name: text + "\n"})

    def compare(self, name, rows):
        for right, wrong, fault in rows:
            with self.subTest(right):
                self.assertEqual(self.faults(name, right), [])
            if wrong:
                with self.subTest(wrong):
                    found = self.faults(name, "first line\n" + wrong)
                    self.assertEqual(len(found), 1, found)
                    self.assertIn(fault, found[0])

    def test_markdown(self):
        self.compare("plugin/README.md", MARKDOWN)

    def test_manual_pages(self):
        self.compare("plugin/man/x.1", MANUAL)

    def test_rst(self):
        self.compare("kernel/Documentation/gpu/x.rst", RST)

    def test_a_fault_has_its_line(self):
        self.assertTrue(self.faults("x.md", "a\n\n`fd.rs`")[0].startswith("x.md:3: "))


class PlainEnglish(unittest.TestCase):
    RULES = plain_english.parse("except ours/phrases\n"
                                "tells? => report\nlets? go => release\n# a comment")

    def faults(self, text, path="a/b.c"):
        return plain_english.faults(self.RULES, path, text)

    def test_words_and_identifiers(self):
        for text in ("it tells", "LET GO", "let_go(x)", "Lets go", "let\n\t * go", "TellsHow",
                     "ItTells", "x.letGo()", "WillLetGoOf"):
            self.assertEqual(len(self.faults(text)), 1, text)
        for text in ("it reports", "intelligence", "teller", "let us go", "TELLER", "$TELL",
                     "Letgo"):
            self.assertEqual(self.faults(text), [], text)

    def test_questions(self):
        self.assertEqual(len(self.faults("/* Is it paused? */")), 1)
        self.assertEqual(self.faults("/* It is paused. */\nreturn paused ? 1 : 0;"), [])

    def test_the_line_and_the_plain_wording_are_reported(self):
        self.assertEqual(self.faults("\nit tells"), ["a/b.c:2: 'tells': report"])

    def test_all_files_but_the_exceptions_are_read(self):
        for path in ("ours/phrases", "ours/phrases/c.c"):
            self.assertEqual(self.faults("it tells", path), [])
        for path in ("Makefile", "ours/c.c", "ours/phrases.c"):
            self.assertEqual(len(self.faults("it tells", path)), 1, path)

    def test_the_list_is_read(self):
        rules = plain_english.parse(plain_english.LIST.read_text())
        self.assertTrue(rules.exceptions)
        self.assertTrue(plain_english.faults(rules, "README.md", "which buffer is hurt"))
        self.assertTrue(plain_english.faults(rules, "a.py", "it will tell"))
        self.assertEqual(plain_english.faults(rules, "a.py", "place = file.tell()"), [])


if __name__ == "__main__":
    unittest.main()
