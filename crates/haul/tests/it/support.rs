//! Where a test runs: a scratch directory, as root or as an ordinary user, and what a run has printed.

use std::fmt::Write as _;
use std::fs::read_dir;
use std::ops::Deref;
use std::process::Command;

use haul_test::nobody::{NobodyProgram, give};
use haul_test::program::{Ended, Program, haul};
use haul_test::scratch::Scratch;
use haul_test::tree::Tree;

/// One test's directory.
pub struct World {
    scratch: Scratch,
    /// Set where an ordinary user runs the program.
    user: Option<NobodyProgram>,
}

impl Deref for World {
    type Target = Scratch;

    fn deref(&self) -> &Scratch {
        &self.scratch
    }
}

impl World {
    /// As this user, which must be root, with a tree.
    pub fn new(tree: &str) -> World {
        assert!(rustix::process::geteuid().is_root(), "these tests need root: they mount and change owners");
        let w = World { scratch: Scratch::new(), user: None };
        w.tree(tree);
        w
    }

    /// Everything in it belongs to an ordinary user, who also runs the program.
    pub fn of_user(tree: &str) -> World {
        let program = NobodyProgram::new(&haul()).expect("a copy of the program");
        let w = World { user: Some(program), ..World::new("") };
        for directory in [w.work.parent().expect("it has one"), &w.work, &w.home] {
            give(directory).expect("give a directory away");
        }
        w.tree(tree);
        w
    }

    /// Makes what the text says (see [`Tree::build`]) in the working directory, with directories of an old time.
    pub fn tree(&self, text: &str) -> Tree {
        let tree = self.scratch.tree(text);
        if let Some((top, _)) = text.split_once(": ").filter(|(top, _)| self.has(top)) {
            self.age_directories(top);
        }
        if self.user.is_some() {
            self.give_all();
        }
        tree
    }

    fn age_directories(&self, path: &str) {
        for entry in read_dir(self.path(path)).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.age_directories(&format!("{path}/{}", entry.file_name().display()));
            }
        }
        self.age(path);
    }

    /// Gives all that is in the working directory to the ordinary user.
    pub fn give_all(&self) {
        self.sh("chown -hR 65534:65534 .");
    }

    /// It prints this on standard error and nothing else.
    #[track_caller]
    pub fn refuses(&self, code: i32, words: &str, message: &str) {
        assert_eq!(self.haul(words).run().snapshot(), format!("exit {code}\n--- stderr\n{message}\n"));
    }

    /// The program with these words, split at blanks.
    pub fn haul(&self, words: &str) -> Program {
        let command = self.user.as_ref().map_or_else(|| Command::new(haul()), NobodyProgram::command);
        self.program(command, words)
    }
}

/// What the text that a run has printed says.
pub trait Printed {
    /// Exit code and output, without what differs from run to run.
    fn snapshot(&self) -> String;
    /// The lines that name items: what is between the plan and the summary.
    fn items(&self) -> Vec<String>;
    /// One line of the summary, without its key.
    fn summary(&self, key: &str) -> Option<&str>;
}

impl Printed for Ended {
    fn snapshot(&self) -> String {
        let mut whole = format!("exit {}\n", self.status.code().map_or("by a signal".into(), |code| code.to_string()));
        for (name, text) in [("stdout", &self.out), ("stderr", &self.err)] {
            if !text.is_empty() {
                let _infallible = write!(whole, "--- {name}\n{}", steady(&text.replace(&self.work, "[W]")));
            }
        }
        whole
    }

    fn items(&self) -> Vec<String> {
        let end = |line: &&str| !SUMMARY.iter().any(|key| line.starts_with(key));
        let mut lines: Vec<String> = self.out.lines().skip(1).take_while(end).map(str::to_owned).collect();
        lines.sort();
        lines
    }

    fn summary(&self, key: &str) -> Option<&str> {
        self.out.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).map(str::trim)
    }
}

const SUMMARY: [&str; 4] = ["Result:", "Completed:", "Stopped:", "Items:"];
/// Lines that hold nothing that is the same twice.
const UNSTEADY: [&str; 8] = ["Completed:", "Started:", "Seconds:", "Throughput:", "Time:", "Bottleneck:", "Try next:", "Workers:"];

/// The program goes by its name, wherever it was started.
fn plain_program(line: &str) -> String {
    let line = line.replace(&haul().display().to_string(), "haul");
    match (line.find("/tmp/haul-nobody-"), line.find("/program ")) {
        (Some(begin), Some(end)) if begin < end => format!("{}haul {}", &line[..begin], &line[end + "/program ".len()..]),
        _ => line,
    }
}

fn steady(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut items: Vec<String> = Vec::new();
    let mut in_items = false;
    for (number, line) in text.lines().enumerate() {
        let line = plain_program(line);
        if line.starts_with("tuned:") {
            continue;
        }
        let ends = SUMMARY.iter().any(|key| line.starts_with(key));
        // Workers name what they do as they do it.
        if number > 0 && !ends && in_items {
            items.push(line);
            continue;
        }
        if ends && in_items {
            items.sort();
            lines.append(&mut items);
            in_items = false;
        }
        in_items |= number == 0;
        if !UNSTEADY.iter().any(|key| line.starts_with(key)) {
            lines.push(line);
        }
    }
    lines.append(&mut items);
    sort_failures(&mut lines);
    lines.join("\n") + "\n"
}

/// Failures come as they happen: consecutive ones are sorted, each with the line of advice below it.
fn sort_failures(lines: &mut [String]) {
    let advice = |line: &str| line.trim_start().starts_with("try: ");
    let failure = |line: &str| !advice(line) && (line.starts_with("haul: ") || line.starts_with("  ")) && line.contains(": ");
    let mut at = 0;
    while at < lines.len() {
        let length = lines[at..].iter().take_while(|line| failure(line) || advice(line)).count();
        let mut groups: Vec<Vec<String>> = Vec::new();
        for line in &lines[at..at + length] {
            match groups.last_mut().filter(|_| advice(line)) {
                Some(group) => group.push(line.clone()),
                None => groups.push(vec![line.clone()]),
            }
        }
        groups.sort();
        lines[at..at + length].clone_from_slice(&groups.concat());
        at += length.max(1);
    }
}
