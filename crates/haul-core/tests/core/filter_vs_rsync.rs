//! The filter against rsync itself: trees and rules made from a seed, what rsync copies and what a slow walk with
//! `Filter` selects must be the same set. `HAUL_TEST_SEED=N` repeats a seed, `HAUL_TEST_CASES=N` asks for more cases.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use haul_core::entry::show;
use haul_core::filter::{Filter, Verdict};

/// Paths below a root; a directory ends in `/`.
type Tree = BTreeSet<Vec<u8>>;

/// Bits from a seed (splitmix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<'a>(&mut self, from: &[&'a [u8]]) -> &'a [u8] {
        from[self.below(from.len())]
    }
}

#[rustfmt::skip]
const NAMES: &[&[u8]] = &[
    b"a", b"b", b"ab", b"ba", b"abc", b"aab", b"A", b"7", b"a.o", b"b.c", b".a", b".b", b"...",
    b"a b", b" ", b"\ta", b"a\nb", b"\x01", b"\xff", b"a\xffb", b"\xc3\xa9",
    b"a*", b"*", b"**", b"?", b"[a]", b"[", b"]", b"a]", b"!", b"^a", b"-", b"- a", b"+ a",
    b"\\", b"a\\b", b"\\*", b"\\a", b"#a", b";a", b"$a", b"'a\"",
];

#[rustfmt::skip]
const PIECES: &[&[u8]] = &[
    b"a", b"b", b"a", b"b", b"/", b"/", b"*", b"*", b"**", b"***", b"?",
    b"[ab]", b"[!a]", b"[^b]", b"[a-c]", b"[]a]", b"[a-]", b"[c-a]", b"[!-~]", b"[a/b]", b"[\x80-\xff]",
    b"[[:alpha:]]", b"[[:punct:][:digit:]]", b"[![:alnum:]]", b"[[:x:]]", b"[[:a]", b"[\\]]", b"[\\a-c]",
    b"[", b"]", b"\\", b"\\*", b"\\a", b".", b"*.", b" ", b"\xff", b"\xc3\xa9", b"\n", b"!", b"-",
];

/// Made below `root`, which exists: some dozens of entries, at most seven deep.
fn plant(dice: &mut Dice, root: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut dirs = vec![(Vec::new(), 0)];
    for _ in 0..70 {
        let (dir, depth): (Vec<u8>, usize) = dirs[dice.below(dirs.len())].clone();
        let path = [dir.as_slice(), dice.pick(NAMES)].concat();
        let as_dir = [path.as_slice(), b"/"].concat();
        if tree.contains(&path) || tree.contains(&as_dir) {
            continue;
        }
        let place = root.join(OsStr::from_bytes(&path));
        if dice.chance(45) && depth < 6 {
            fs::create_dir(&place).unwrap();
            tree.insert(as_dir.clone());
            dirs.push((as_dir, depth + 1));
        } else {
            fs::write(&place, b"").unwrap();
            tree.insert(path);
        }
    }
    tree
}

/// A pattern: often a path of the tree with some of its bytes made wild, else pieces at random. Never empty.
fn pattern(dice: &mut Dice, tree: &Tree) -> Vec<u8> {
    let mut out = Vec::new();
    if dice.chance(60) {
        let path = tree.iter().nth(dice.below(tree.len())).unwrap();
        let path = path.strip_suffix(b"/").unwrap_or(path);
        let parts: Vec<&[u8]> = path.split(|&b| b == b'/').collect();
        let first = if dice.chance(50) { parts.len() - 1 } else { dice.below(parts.len()) };
        let last = if dice.chance(75) { parts.len() } else { first + 1 + dice.below(parts.len() - first) };
        for (index, part) in parts[first..last].iter().enumerate() {
            if index > 0 {
                out.push(b'/');
            }
            disguise(dice, part, &mut out);
        }
        if dice.chance(10) {
            out.splice(0..0, *b"**/");
        }
        if dice.chance(25) {
            out.insert(0, b'/');
        }
    } else {
        for _ in 0..1 + dice.below(5) {
            out.extend_from_slice(dice.pick(PIECES));
        }
    }
    match dice.below(12) {
        0 | 1 => out.push(b'/'),
        2 => out.extend_from_slice(b"/***"),
        3 => out.extend_from_slice(b"/**"),
        4 => out.extend_from_slice(b"/*"),
        _ => {}
    }
    if dice.chance(3) {
        out.push(b'/');
    }
    out
}

/// Adds a name, perhaps with wild parts, in many cases so that it still matches itself.
fn disguise(dice: &mut Dice, name: &[u8], out: &mut Vec<u8>) {
    match dice.below(8) {
        0 => out.extend_from_slice(dice.pick(&[b"*", b"**", b"?", b"***"])),
        1 => name.iter().for_each(|&byte| out.extend_from_slice(&[b'\\', byte])),
        2 | 3 => {
            for &byte in name {
                match dice.below(6) {
                    0 => out.push(b'?'),
                    1 => out.push(b'*'),
                    2 => out.extend_from_slice(&[b'[', byte, b']']),
                    3 => out.extend_from_slice(dice.pick(PIECES)),
                    _ => out.push(byte),
                }
            }
        }
        _ => out.extend_from_slice(name),
    }
}

/// The same list as options for rsync and as calls of `Filter`.
#[derive(Default)]
struct List {
    options: Vec<OsString>,
    filter: Filter,
}

impl List {
    fn option(&mut self, name: &str, value: &[u8]) {
        self.options.push(OsString::from_vec([name.as_bytes(), b"=", value].concat()));
    }

    fn include(&mut self, pattern: &[u8]) {
        self.option("--include", pattern);
        self.filter.include(pattern).unwrap();
    }

    fn exclude(&mut self, pattern: &[u8]) {
        self.option("--exclude", pattern);
        self.filter.exclude(pattern).unwrap();
    }

    fn rule(&mut self, line: &[u8]) {
        self.option("--filter", line);
        self.filter.rule(line).unwrap();
    }

    fn patterns(&mut self, text: &[u8], verdict: Verdict, zero: bool, file: &Path) {
        fs::write(file, text).unwrap();
        let name = if verdict == Verdict::Include { "--include-from" } else { "--exclude-from" };
        self.option(name, file.as_os_str().as_bytes());
        self.filter.patterns(text, verdict, zero).unwrap();
    }

    /// rsync's form of a file of rules is a merge file.
    fn rules(&mut self, text: &[u8], zero: bool, file: &Path) {
        fs::write(file, text).unwrap();
        self.option("--filter", &[b". ", file.as_os_str().as_bytes()].concat());
        self.filter.rules(text, zero).unwrap();
    }
}

const PREFIXES: &[&[u8]] = &[
    b"+ ",
    b"include ",
    b"+_",
    b"+, ",
    b"- ",
    b"- ",
    b"- ",
    b"exclude ",
    b"exclude_",
    b"exclude, ",
    b"-! ",
    b"+! ",
    b"exclude,! ",
    b"+,!_",
];

fn list(dice: &mut Dice, tree: &Tree, scratch: &Path) -> List {
    let mut list = List::default();
    // rsync's --from0 holds for all files of a run.
    let zero = dice.chance(50);
    if zero {
        list.options.push("--from0".into());
    }
    for index in 0..1 + dice.below(6) {
        let one = pattern(dice, tree);
        match dice.below(12) {
            0..=2 => list.include(&one),
            3..=6 => list.exclude(&one),
            7 | 8 => list.rule(&[dice.pick(PREFIXES), &one].concat()),
            9 | 10 => {
                let rules = dice.chance(40);
                let prefixes: &[&[u8]] = if rules { PREFIXES } else { &[b"", b"", b"", b"+ ", b"- ", b"#", b";"] };
                let mut text = Vec::new();
                for _ in 0..1 + dice.below(4) {
                    let mut line = pattern(dice, tree);
                    if !zero {
                        line.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b'?');
                    }
                    text.extend_from_slice(dice.pick(prefixes));
                    text.extend_from_slice(&line);
                    text.extend_from_slice(if zero { b"\0" } else { dice.pick(&[b"\n", b"\n\n", b"\r\n"]) });
                }
                let file = scratch.join(format!("list{index}"));
                let verdict = if dice.chance(30) { Verdict::Include } else { Verdict::Exclude };
                if rules { list.rules(&text, zero, &file) } else { list.patterns(&text, verdict, zero, &file) }
            }
            _ => match dice.below(8) {
                0 => list.exclude(b"!"),
                1 => list.rule(dice.pick(&[b"!", b"clear"])),
                _ => list.exclude(&one),
            },
        }
    }
    if dice.chance(20) {
        list.include(b"*/");
    }
    if dice.chance(15) {
        list.exclude(b"*");
    }
    list
}

/// All that is below `dir`, with `prefix` before each path; what `keep` refuses is left out with all below it.
/// Whether a name in a directory is kept; the flag says that it is a directory itself.
type Keep<'a> = &'a dyn Fn(&[u8], &[u8], bool) -> bool;

fn walk(dir: &Path, prefix: &[u8], keep: Keep<'_>, into: &mut Tree) {
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let leaf = entry.file_name().into_vec();
        let is_dir = entry.file_type().unwrap().is_dir();
        if !keep(prefix, &leaf, is_dir) {
            continue;
        }
        let mut path = [prefix, &leaf].concat();
        if is_dir {
            path.push(b'/');
            walk(&entry.path(), &path, keep, into);
        }
        into.insert(path);
    }
}

fn keeps(filter: &Filter, prefix: &[u8], leaf: &[u8], is_dir: bool) -> bool {
    let verdict = filter.check(&[prefix, leaf].concat(), is_dir);
    assert_eq!(verdict, filter.check_with(prefix.strip_suffix(b"/").unwrap_or(prefix), leaf, is_dir));
    verdict == Verdict::Include
}

/// Runs rsync without the caller's environment; its absence is a failure, for then nothing here is proved.
fn rsync(arguments: &[OsString]) -> Output {
    Command::new("rsync")
        .args(arguments)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("these tests compare with rsync, which cannot be run ({error}): install rsync"))
}

/// A temporary directory, in memory where there is such a place.
fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let place: PathBuf = if memory.is_dir() { memory.into() } else { std::env::temp_dir() };
    tempfile::tempdir_in(place).unwrap()
}

fn shown<'a>(paths: impl Iterator<Item = &'a Vec<u8>>) -> Vec<String> {
    paths.map(|path| show(path)).collect()
}

/// Copies `source` (as written, so with or without a last slash) with rsync and compares what landed with `expected`.
fn compare(list: &List, source: &Path, to: &Path, expected: &Tree, what: &str) {
    // Where nothing stands, rsync gives the destination's own name to a directory of which nothing is left.
    fs::create_dir(to).unwrap();
    let mut arguments: Vec<OsString> = vec!["-r".into(), "--inplace".into(), "--whole-file".into()];
    arguments.extend(list.options.iter().cloned());
    arguments.extend([source.as_os_str().to_owned(), to.as_os_str().to_owned()]);
    let output = rsync(&arguments);
    assert!(output.status.success(), "{what}: rsync {:?}: {}", list.options, String::from_utf8_lossy(&output.stderr));
    let mut copied = Tree::new();
    walk(to, b"", &|_, _, _| true, &mut copied);
    fs::remove_dir_all(to).unwrap();
    assert!(
        copied == *expected,
        "{what}: {:?}\nonly rsync copies {:?}\nonly the filter keeps {:?}",
        list.options,
        shown(copied.difference(expected)),
        shown(expected.difference(&copied)),
    );
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|error| panic!("{variable}={text}: {error}")))
}

#[test]
#[ignore = "full"]
fn same_set_as_rsync() {
    let seed = number("HAUL_TEST_SEED").unwrap_or(0x6861_756c);
    let cases = number("HAUL_TEST_CASES").unwrap_or(400);
    println!("HAUL_TEST_SEED={seed} HAUL_TEST_CASES={cases}");
    let telling: u64 = std::thread::scope(|scope| {
        let halves: Vec<_> = (0..2)
            .map(|half| scope.spawn(move || (half..cases.div_ceil(PER_TREE)).step_by(2).map(|group| run(seed, group)).sum::<u64>()))
            .collect();
        halves.into_iter().map(|half| half.join().expect("a case failed, see above")).sum()
    });
    println!("{telling} cases left out something but not all");
    assert!(telling > cases / 4, "only {telling} of {cases} cases tell right from wrong");
}

/// Lists tried on one tree.
const PER_TREE: u64 = 20;

/// Makes one tree and tries lists on it; how many of them left out something but not all.
fn run(seed: u64, group: u64) -> u64 {
    let scratch = scratch();
    let mut dice = Dice(seed ^ group.wrapping_mul(0x5851_f42d_4c95_7f2d));
    let source = scratch.path().join("source");
    fs::create_dir(&source).unwrap();
    let tree = plant(&mut dice, &source);
    let to = scratch.path().join("to");
    let mut telling = 0;
    for case in 0..PER_TREE {
        let list = list(&mut dice, &tree, scratch.path());
        let keep = |prefix: &[u8], leaf: &[u8], is_dir: bool| keeps(&list.filter, prefix, leaf, is_dir);
        let mut expected = Tree::new();
        let what = format!("HAUL_TEST_SEED={seed} tree {group} list {case}");
        if dice.chance(75) {
            walk(&source, b"", &keep, &mut expected);
            compare(&list, &source.join(""), &to, &expected, &what);
        } else {
            if keep(b"", b"source", true) {
                walk(&source, b"source/", &keep, &mut expected);
                expected.insert(b"source/".to_vec());
            }
            compare(&list, &source, &to, &expected, &what);
        }
        telling += u64::from(!expected.is_empty() && expected.len() < tree.len());
    }
    telling
}

/// Every name of the pool against patterns that single out what is special about one of them.
#[test]
#[ignore = "full"]
fn every_name_against_telling_patterns() {
    let scratch = scratch();
    let source = scratch.path().join("source");
    fs::create_dir_all(source.join("deep")).unwrap();
    for name in NAMES {
        fs::write(source.join(OsStr::from_bytes(name)), b"").unwrap();
        fs::write(source.join("deep").join(OsStr::from_bytes(name)), b"").unwrap();
    }
    let mut patterns: Vec<Vec<u8>> = NAMES.iter().map(|name| name.to_vec()).collect();
    patterns.extend(PIECES.iter().map(|piece| [*piece, b"*"].concat()));
    patterns.extend(PIECES.iter().map(|piece| [b"/", *piece].concat()));
    patterns.extend(PIECES.iter().map(|piece| [b"deep/", *piece].concat()));
    for pattern in &patterns {
        let mut list = List::default();
        list.rule(&[b"- ", pattern.as_slice()].concat());
        let mut expected = Tree::new();
        walk(&source, b"", &|prefix, leaf, is_dir| keeps(&list.filter, prefix, leaf, is_dir), &mut expected);
        compare(&list, &source.join(""), &scratch.path().join("to"), &expected, &show(pattern));
    }
}

/// A rule that rsync refuses is refused; one that rsync takes is taken, unless it needs what is not built.
#[test]
fn refuses_what_rsync_refuses() {
    let refused: &[&[u8]] = &[
        b"x",
        b"*.o",
        b"-",
        b"- ",
        b"+a",
        b"include",
        b"exclude",
        b"includes a",
        b"! a",
        b"!a",
        b"clear a",
        b"-e a",
        b"-+ a",
        b"-w a",
        b" - a",
        b"-\ta",
        b"%",
    ];
    let taken: &[&[u8]] = &[
        b"- a",
        b"-_a",
        b"-  a",
        b"-! a",
        b"-,! a",
        b"-, a",
        b"-!! a",
        b"+ -",
        b"!",
        b"!,",
        b"clear",
        b"clear,",
        b"include, a",
        b"exclude,!_a",
    ];
    let scratch = scratch();
    let source = scratch.path().join("source/");
    fs::create_dir(&source).unwrap();
    for (lines, good) in [(refused, false), (taken, true)] {
        for line in lines {
            let option = OsString::from_vec([b"--filter=", *line].concat());
            let output = rsync(&["-rn".into(), option, source.clone().into(), scratch.path().join("to").into()]);
            assert_eq!(output.status.success(), good, "rsync on {:?}: {}", show(line), String::from_utf8_lossy(&output.stderr));
            assert_eq!(Filter::default().rule(line).is_ok(), good, "{:?}", show(line));
        }
    }
}
