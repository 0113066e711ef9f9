//! The operations and their order: one that needs files comes after one that makes them.

use serde::Serialize;

/// One kind of work. The names are those of smallfile, where it has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Makes a file that was not there and writes it.
    Create,
    /// Writes as many bytes again behind the end.
    Append,
    /// Writes other bytes over the old ones; a store that cannot change a file puts a new one in its place.
    Overwrite,
    /// Empties the file as it is opened, then writes it.
    TruncateOverwrite,
    Read,
    Stat,
    Chmod,
    /// Moves the file to the directory of the same name in the other of two trees.
    Rename,
    Setxattr,
    Getxattr,
    /// Makes a symlink to the file, in the other tree.
    Symlink,
    /// Makes a second name of the file, in the other tree.
    Hardlink,
    /// Makes a directory beside the file.
    Mkdir,
    Rmdir,
    Readdir,
    /// Lists a directory and asks for the attributes of each file.
    LsL,
    Delete,
    /// Removes the file after it was renamed.
    DeleteRenamed,
    /// Removes everything that the run has made so far; not measured.
    Cleanup,
}

use Operation as Op;

impl Operation {
    /// In the order of the operations.
    pub const ALL: [(Operation, &str); 19] = [
        (Op::Create, "create"),
        (Op::Append, "append"),
        (Op::Overwrite, "overwrite"),
        (Op::TruncateOverwrite, "truncate-overwrite"),
        (Op::Read, "read"),
        (Op::Stat, "stat"),
        (Op::Chmod, "chmod"),
        (Op::Rename, "rename"),
        (Op::Setxattr, "setxattr"),
        (Op::Getxattr, "getxattr"),
        (Op::Symlink, "symlink"),
        (Op::Hardlink, "hardlink"),
        (Op::Mkdir, "mkdir"),
        (Op::Rmdir, "rmdir"),
        (Op::Readdir, "readdir"),
        (Op::LsL, "ls-l"),
        (Op::Delete, "delete"),
        (Op::DeleteRenamed, "delete-renamed"),
        (Op::Cleanup, "cleanup"),
    ];

    pub fn word(self) -> &'static str {
        Op::ALL[self as usize].1
    }

    /// An operation by its name, with `_` for `-`, or a synonym.
    pub fn parse(word: &str) -> Option<Operation> {
        let word = word.replace('_', "-");
        match word.as_str() {
            "link" => Some(Op::Hardlink),
            "unlink" | "rm" => Some(Op::Delete),
            "list" => Some(Op::Readdir),
            _ => Op::ALL.into_iter().find(|(_, name)| *name == word).map(|(op, _)| op),
        }
    }

    pub fn moves_bytes(self) -> bool {
        self.writes() || self == Op::Read
    }

    pub fn writes(self) -> bool {
        matches!(self, Op::Create | Op::Append | Op::Overwrite | Op::TruncateOverwrite)
    }

    /// One operation is of a directory with all the files of the thread in it, not of one file.
    pub fn by_directory(self) -> bool {
        matches!(self, Op::Readdir | Op::LsL)
    }

    /// Nothing is another afterwards.
    pub fn only_looks(self) -> bool {
        matches!(self, Op::Read | Op::Stat | Op::Getxattr | Op::Readdir | Op::LsL)
    }
}

/// Part of a run over the same files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Everything made so far is removed.
    Clear,
    /// Files are made for an operation; not measured.
    Prepare(Operation),
    Measure(Operation),
}

/// What exists between two operations.
#[derive(Clone, Copy, Default)]
struct State {
    files: bool,
    renamed: bool,
    attributes: bool,
    dirs: bool,
    symlinks: bool,
    hardlinks: bool,
}

impl State {
    fn is_empty(self) -> bool {
        !(self.files || self.dirs || self.symlinks || self.hardlinks)
    }

    fn after(&mut self, op: Operation) {
        match op {
            Op::Create => *self = State { files: true, dirs: self.dirs, ..State::default() },
            Op::Rename => self.renamed = !self.renamed,
            Op::Setxattr => self.attributes = true,
            Op::Symlink => self.symlinks = true,
            Op::Hardlink => self.hardlinks = true,
            Op::Mkdir => self.dirs = true,
            Op::Rmdir => self.dirs = false,
            Op::Delete | Op::DeleteRenamed => self.files = false,
            Op::Cleanup => *self = State::default(),
            _ => {}
        }
    }
}

/// The operations in their order, each after its prerequisites, in an empty directory.
pub fn steps(asked: &[Operation]) -> Vec<Step> {
    let mut state = State::default();
    let mut steps = Vec::new();
    for op in asked.iter().copied() {
        let stands = match op {
            Op::Create => !state.is_empty(),
            Op::Symlink => state.symlinks,
            Op::Hardlink => state.hardlinks,
            Op::Mkdir => state.dirs,
            _ => false,
        };
        if stands {
            steps.push(Step::Clear);
            state = State::default();
        }
        let mut needs = Vec::new();
        if !state.files && !matches!(op, Op::Create | Op::Mkdir | Op::Rmdir | Op::Cleanup) {
            // Links to removed files would conflict with new ones.
            if state.symlinks || state.hardlinks {
                steps.push(Step::Clear);
                state = State::default();
            }
            needs.push(Op::Create);
        }
        match op {
            Op::Getxattr if !state.attributes => needs.push(Op::Setxattr),
            Op::Rmdir if !state.dirs => needs.push(Op::Mkdir),
            Op::DeleteRenamed if !state.renamed || needs.contains(&Op::Create) => needs.push(Op::Rename),
            _ => {}
        }
        for need in needs {
            steps.push(Step::Prepare(need));
            state.after(need);
        }
        steps.push(if op == Op::Cleanup { Step::Clear } else { Step::Measure(op) });
        state.after(op);
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &str) -> String {
        let asked: Vec<Operation> = words.split(' ').map(|word| Operation::parse(word).unwrap()).collect();
        let shown = steps(&asked).into_iter().map(|step| match step {
            Step::Clear => "-".to_string(),
            Step::Prepare(op) => format!("({})", op.word()),
            Step::Measure(op) => op.word().to_string(),
        });
        shown.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_operation_comes_after_what_it_needs() {
        for (asked, expected) in [
            ("create stat read rename delete", "create stat read rename delete"),
            ("stat", "(create) stat"),
            ("stat create", "(create) stat - create"),
            ("create delete create", "create delete create"),
            ("getxattr", "(create) (setxattr) getxattr"),
            ("setxattr getxattr", "(create) setxattr getxattr"),
            ("rmdir", "(mkdir) rmdir"),
            ("mkdir rmdir mkdir", "mkdir rmdir mkdir"),
            ("mkdir mkdir", "mkdir - mkdir"),
            ("symlink symlink", "(create) symlink - (create) symlink"),
            ("symlink delete stat", "(create) symlink delete - (create) stat"),
            ("symlink delete create", "(create) symlink delete - create"),
            ("delete-renamed", "(create) (rename) delete-renamed"),
            ("rename delete-renamed", "(create) rename delete-renamed"),
            ("rename rename delete_renamed", "(create) rename rename (rename) delete-renamed"),
            ("rename delete delete-renamed", "(create) rename delete (create) (rename) delete-renamed"),
            ("create cleanup ls-l", "create - (create) ls-l"),
        ] {
            assert_eq!(of(asked), expected, "{asked}");
        }
    }
}
