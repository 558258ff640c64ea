#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""series-make.py TOP REPOSITORY COMMIT BASE KERNEL-SOURCE TREE OUT: writes a series as mails to OUT.

TOP has our files; authors and dates are those of REPOSITORY, up to COMMIT. TREE becomes a git tree
of the files that the series changes, with a commit for each patch. What a patch is made of is in
kernel/base/BASE/series/order. The same input always gives the same bytes.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from series_input import Fault, Hook, Message, read_hooks, read_new_files

SELFTESTS_MAKEFILE = "tools/testing/selftests/amdgpu_criu/Makefile"


@dataclass
class Patch:
    """A patch of the series: new files, and hooks or the parts of hooks that change single files."""

    name: str
    part: str  # of the series: what is mailed together
    files: list = field(default_factory=list)
    hooks: list = field(default_factory=list)  # (hook, path)
    needs: list = field(default_factory=list)  # names of patches, in order
    whole_hook: Hook = None


class Outline:
    """The lines of the file `order` for each patch.

    "patch NAME [before NAME]" starts a patch. "part NAME" starts a part of the series, which has its
    own cover letter. "like BASE" copies the patches of another base; after it, "also NAME" continues
    one of them and "without NAME" removes one. "unmailed PATTERN" names files that stay in this
    repository if no patch claims them.
    """

    def __init__(self, path):
        self.like = None  # directory of the other base's series
        self.patches = {}  # name -> [(where, words)]
        self.parts = {}  # name of a patch -> name of its part
        self.unmailed = []  # (where, pattern)
        self.part = None
        current = None
        for number, line in enumerate(path.read_text().splitlines(), 1):
            where, words = f"{path.parts[-3]}/{path.name}:{number}", line.split("#")[0].split()
            if not words:
                continue
            if words[0] in ("like", "part", "patch", "also", "unmailed", "without"):
                current = getattr(self, f"on_{words[0]}")(where, path, *words[1:])
            elif current is None:
                raise Fault(f"{where}: {words[0]} belongs to no patch")
            else:
                current.append((where, words))

    def on_like(self, where, path, base):
        if self.patches:
            raise Fault(f"{where}: like comes first")
        self.like = path.parents[2] / base / "series"
        other = Outline(self.like / "order")
        self.patches, self.parts, self.unmailed = other.patches, other.parts, other.unmailed

    def on_part(self, _where, _path, name):
        self.part = name

    def on_patch(self, where, _path, name, *place):
        if name in self.patches:
            raise Fault(f"{where}: two patches {name}")
        later = {}
        self.parts[name] = self.parts[place[-1]] if place and place[-1] in self.parts else self.part
        if not self.parts[name]:
            raise Fault(f"{where}: patch {name} is in no part")
        if place:
            if place[0] != "before" or place[1:2] != (place[-1],) or place[1] not in self.patches:
                raise Fault(f"{where}: expected patch NAME [before NAME]")
            names = list(self.patches)
            later = {after: self.patches.pop(after) for after in names[names.index(place[1]):]}
        self.patches[name] = []
        self.patches.update(later)
        return self.patches[name]

    def on_also(self, where, _path, name):
        if name not in self.patches:
            raise Fault(f"{where}: there is no patch {name}")
        return self.patches[name]

    def on_unmailed(self, where, _path, pattern):
        self.unmailed.append((where, pattern))

    def on_without(self, where, _path, name):
        if not self.patches.pop(name, None):
            raise Fault(f"{where}: there is no patch {name}")


class Order:
    """The patches of an outline. Their lines are "hook NAME [PATH]", "file PATTERN" and "needs NAME...".

    A fix applies without the patches before it, except for those that it needs.
    """

    def __init__(self, path, hooks, new_files):
        self.path = path
        self.hooks = hooks
        self.new_files = new_files
        self.patches = []
        self.claimed = {}  # (hook name, path) or path -> name of the patch
        outline = Outline(path)
        self.like = outline.like
        for name, lines in outline.patches.items():
            self.patches.append(Patch(name, outline.parts[name]))
            for where, words in lines:
                self.line(where, words)
        self.mailed = set(self.claimed)
        for where, pattern in outline.unmailed:
            for path in self.matches(where, pattern):
                self.claimed.setdefault(path, None)
        self.check_complete()

    def line(self, where, words):
        rules = {"hook": self.hook, "file": self.file, "needs": self.needs}
        if words[0] not in rules:
            raise Fault(f"{where}: expected hook NAME [PATH], file PATTERN or needs NAME...")
        rules[words[0]](where, *words[1:])

    def claim(self, where, key):
        if key in self.claimed:
            raise Fault(f"{where}: {key} is in patch {self.claimed[key]} already")
        self.claimed[key] = self.patches[-1].name

    def hook(self, where, name, path=None):
        hook = self.hooks.get(name)
        if not hook:
            raise Fault(f"{where}: there is no hook patch {name}")
        if path and path not in hook.sections:
            raise Fault(f"{where}: {name} does not change {path}")
        if not path:
            self.patches[-1].whole_hook = hook
        for section in [path] if path else hook.sections:
            self.claim(where, (name, section))
            self.patches[-1].hooks.append((hook, section))

    def matches(self, where, pattern):
        found = sorted(path for path in self.new_files if Path(path).match(pattern))
        if not found:
            raise Fault(f"{where}: no file {pattern}")
        return found

    def file(self, where, pattern):
        for path in self.matches(where, pattern):
            self.claim(where, path)
            self.patches[-1].files.append(path)

    def needs(self, where, *names):
        earlier = {patch.name: patch for patch in self.patches[:-1]}
        needed = self.patches[-1].needs
        for name in names:
            if name not in earlier:
                raise Fault(f"{where}: no earlier patch {name}")
            needed += [one for one in [*earlier[name].needs, name] if one not in needed]

    def spread(self):
        """Makefiles that no patch claims: a line belongs to the patch with its objects' sources."""
        hooks = {}
        for hook in self.hooks.values():
            for path in hook.sections:
                if Path(path).name == "Makefile" and (hook.name, path) not in self.claimed:
                    hooks.setdefault(path, []).append(hook)
        return hooks

    def check_complete(self):
        spread = {(hook.name, path) for path, hooks in self.spread().items() for hook in hooks}
        left = [path for path in self.new_files if path not in self.claimed]
        left += [
            f"{path} of hook {hook.name}"
            for hook in self.hooks.values()
            for path in hook.sections
            if (hook.name, path) not in self.claimed and (hook.name, path) not in spread
        ]
        if left:
            raise Fault("\n  ".join([f"{self.path}: in no patch:"] + sorted(left)))


class Tree:
    """The git tree in which the series is made."""

    def __init__(self, root, source):
        self.root = root
        self.source = source
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        self.git("init", "-q", "-b", "series")

    def git(self, *words, text=None, env=None):
        settings = ["core.abbrev=12", "core.safecrlf=false", "gc.auto=0", "diff.renames=false"]
        command = ["git"] + [part for one in settings for part in ("-c", one)] + list(words)
        clean = {key: val for key, val in os.environ.items() if not key.startswith("GIT_")}
        clean.update(GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_NOSYSTEM="1", TZ="UTC")
        clean.update(env or {})
        done = subprocess.run(command, cwd=self.root, env=clean, input=text, text=True,
                              capture_output=True, check=False)
        if done.returncode:
            raise Fault(f"git {words[0]}: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def add_base(self, paths):
        for path in paths:
            if not (self.source / path).is_file():
                raise Fault(f"a hook patch changes {path}, which the kernel source does not have")
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(self.source / path, self.root / path)
            (self.root / path).chmod(0o644)

    def commit(self, message, stamp):
        env = {}
        for who in ("AUTHOR", "COMMITTER"):
            env[f"GIT_{who}_NAME"], env[f"GIT_{who}_EMAIL"], env[f"GIT_{who}_DATE"] = stamp
        self.git("add", "-A", "-f")
        self.git("commit", "-q", "-s", "--cleanup=verbatim", "-F", "-", text=message, env=env)


def without_objects(lines, missing):
    """Removes objects from lines of a Makefile. A list that loses its last line is still terminated."""
    kept = []
    for line in lines:
        words = line.split()
        left = [word for word in words if not (word.endswith(".o") and Path(word).stem in missing)]
        goes_on = line.endswith("\\")
        if len(left) == len(words):
            kept.append(line)
        elif any(word.endswith(".o") for word in left) or (goes_on and left[-2:-1] == ["+="]):
            kept.append(line[: len(line) - len(line.lstrip())] + " ".join(left))
        elif not goes_on and kept and kept[-1].endswith("\\"):
            kept[-1] = kept[-1][:-1].rstrip()
            if kept[-1].endswith("="):
                kept.pop()
    return kept


def without_tests(lines, missing):
    """Removes programs and files of selftests from lines "VARIABLE += WORD..." of their Makefile."""
    kept = []
    for line in lines:
        head, plus, words = line.partition(" += ")
        left = [word for word in words.split() if word not in missing]
        if not plus or len(left) == len(words.split()):
            kept.append(line)
        elif left:
            kept.append(head + plus + " ".join(left))
    return kept


class Series:
    def __init__(self, top, history, base, source, tree):
        self.top = top
        self.repository, self.commit = history
        self.series = top / "kernel/base" / base / "series"
        self.new_files = read_new_files(top, base)
        self.hooks = read_hooks([self.series.parent / "hooks", self.series / "hooks"])
        self.changes = read_hooks([self.series.parent / "files"])  # of our files, for this kernel
        self.order = Order(self.series / "order", self.hooks, self.new_files)
        self.tree = Tree(tree, source)
        self.base_paths = sorted({path for hook in self.hooks.values() for path in hook.sections})
        self.stamps = []

    def stamp(self, sources):
        """Author and date of the newest commit that changed any of the sources."""
        command = ["git", "-c", f"safe.directory={self.repository}", "log", "-1",
                   "--format=%an%n%ae%n@%at +0000", self.commit, "--"]
        for paths in ([str(path.relative_to(self.top)) for path in sources], []):
            found = subprocess.run(command + paths, cwd=self.repository, text=True, check=True,
                                   capture_output=True).stdout.split("\n")
            if len(found) >= 3:
                self.stamps.append(tuple(found[:3]))
                return self.stamps[-1]
        raise Fault("authors and dates come from git, but there is no commit here")

    def sources(self):
        """Our files, and where each is as it must be: in the stage if it is changed for this kernel."""
        changed = {path for change in self.changes.values() for path in change.sections}
        stage = self.top / "build/stage" / self.series.parts[-2]
        for path, source in sorted(self.new_files.items()):
            if path in self.order.mailed and path != SELFTESTS_MAKEFILE:
                yield path, stage / path if path in changed else source

    def message_path(self, patch):
        text = self.text(f"{patch.name}.txt")
        if text.is_file():
            return text
        if patch.whole_hook:
            return patch.whole_hook.path
        raise Fault(f"{text}: missing, and patch {patch.name} is not a hook patch alone")

    def text(self, name):
        """The path of a file of this base, or of the base named by "like"."""
        own = self.series / name
        return self.order.like / name if self.order.like and not own.is_file() else own

    def present_objects(self):
        return {path.stem for path in self.tree.root.rglob("*.c")}

    def spread_makefile(self, path, hooks):
        """Updates a Makefile to the sources that are present."""
        present = self.present_objects()
        ours = {Path(name).stem for name in self.new_files if name.endswith(".c")}
        target = self.tree.root / path
        shutil.copy(self.tree.source / path, target)
        for hook in hooks:
            self.tree.git("apply", "--whitespace=error", "-", text=hook.sections[path])
        lines = target.read_text().split("\n")
        if any(Path(word).stem in ours & present for line in lines for word in line.split()
               if word.endswith(".o")):
            target.write_text("\n".join(without_objects(lines, ours - present)))
        else:
            shutil.copy(self.tree.source / path, target)

    def spread_tests(self):
        """Updates the Makefile of the selftests to the files that are present."""
        target = self.tree.root / SELFTESTS_MAKEFILE
        if not target.is_file():
            return
        missing = set()
        for path in map(Path, self.new_files):
            if path.parent == Path(SELFTESTS_MAKEFILE).parent and not (self.tree.root / path).exists():
                missing |= {path.name, path.stem} if path.suffix == ".c" else {path.name}
        lines = self.new_files[SELFTESTS_MAKEFILE].read_text().split("\n")
        target.write_text("\n".join(without_tests(lines, missing)))

    def add_patch(self, patch):
        sources = [self.message_path(patch)]
        for path in patch.files:
            target = self.tree.root / path
            if (self.tree.source / path).exists():
                raise Fault(f"{path}: the kernel source has a file of this name")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(self.new_files[path], target)
            target.chmod(0o644)
            sources.append(self.new_files[path])
            for change in self.changes.values():
                if path in change.sections:
                    self.tree.git("apply", "-", text=change.sections[path])
                    sources.append(change.path)
        for hook, path in patch.hooks:
            try:
                self.tree.git("apply", "--whitespace=error", "-", text=hook.sections[path])
            except Fault as fault:
                raise Fault(f"patch {patch.name}, hook {hook.name}: {fault}") from None
            sources.append(hook.path)
        for path, hooks in self.order.spread().items():
            self.spread_makefile(path, hooks)
        self.spread_tests()
        message = Message(self.message_path(patch))
        self.tree.commit(f"{message.subject}\n\n{message.body}", self.stamp(sources))

    def write(self, out):
        """Writes the mails of each part to OUT/PART."""
        self.tree.add_base(self.base_paths)
        self.tree.commit("base\n", ("base", "base", "@86400 +0000"))
        self.tree.git("tag", "base")
        before = "base"
        for part, patches in self.parts().items():
            for patch in patches:
                self.add_patch(patch)
            self.tree.git("tag", part)
            self.write_part(part, patches, before, out / part)
            before = part

    def parts(self):
        """Names of the parts, in order, and the patches of each."""
        parts = {}
        for patch in self.order.patches:
            parts.setdefault(patch.part, []).append(patch)
        if [patch.part for patch in self.order.patches] != [
                part for part, patches in parts.items() for _ in patches]:
            raise Fault(f"{self.order.path}: the patches of a part do not follow each other")
        return parts

    def write_part(self, part, patches, before, out):
        cover = self.text(f"cover-{part}.txt")
        self.stamp([cover])
        name, mail, date = max(self.stamps, key=lambda stamp: int(stamp[2].split()[0][1:]))
        env = {"GIT_COMMITTER_NAME": name, "GIT_COMMITTER_EMAIL": mail, "GIT_COMMITTER_DATE": date}
        self.tree.git("format-patch", "-q", "--cover-letter", "--zero-commit", "--no-signature",
                      "--stat=76", "--summary", "-o", str(out), f"{before}..{part}", env=env)
        self.fill_cover(out / "0000-cover-letter.patch", Message(cover), patches)

    def fill_cover(self, path, message, patches):
        """Replaces @NAME@ with the number of that patch, and @version@ with that of the kernel."""
        numbers = {patch.name: str(at) for at, patch in enumerate(patches, 1)}
        makefile = (self.tree.source / "Makefile").read_text()
        numbers["version"] = ".".join(
            re.search(rf"^{part} = (\d+)$", makefile, re.M)[1]
            for part in ("VERSION", "PATCHLEVEL", "SUBLEVEL"))

        def number(match):
            if match[1] not in numbers:
                raise Fault(f"{path.parent.name}: its cover letter names a patch {match[1]}")
            return numbers[match[1]]

        body = re.sub(r"@([a-z-]+)@", number, message.body.strip())
        text = path.read_text()
        text = text.replace("*** SUBJECT HERE ***", message.subject)
        path.write_text(text.replace("*** BLURB HERE ***", body))


def main():
    top, repository, commit, base, source, tree, out = sys.argv[1:]
    out = Path(out)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    try:
        series = Series(Path(top), (repository, commit), base, Path(source), Path(tree))
        series.write(out)
        names = "".join(f"{path}\n" for path in series.base_paths)
        (Path(tree).parent / "changed-files").write_text(names)
        names = "".join(f"{path}\t{src}\n" for path, src in series.sources())
        (Path(tree).parent / "new-files").write_text(names)
        names = "".join(" ".join([patch.part, patch.name, *patch.needs]) + "\n"
                        for patch in series.order.patches)
        (Path(tree).parent / "patches").write_text(names)
    except Fault as fault:
        sys.exit(f"series: {fault}")


if __name__ == "__main__":
    main()
