//! Next steps that take an option of the program: which, as data. The program has the words; here is what they come to.

use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    /// Another run is active: stop it here if its process is known, or on its host, or wait until it counts as dead.
    Wait { kill: Option<u32>, gone_in: Option<String> },
    /// The journal cannot be read.
    ForgetJournal,
    /// There is no room for what grows.
    StateDirectory,
    /// Something of another kind is in the way.
    ReplaceOrKeep,
    /// A directory with something in it is.
    ReplaceTree,
    /// What would be deleted is the source.
    DeleteNothing,
    /// The source of a mirror has nothing in it.
    NothingListed,
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Hint::Wait { .. } => "wait until it ends",
            Hint::ForgetJournal => "forget what it says and begin anew",
            Hint::StateDirectory => "the state directory must have room",
            Hint::ReplaceOrKeep | Hint::ReplaceTree => "it is replaced only if that is asked for",
            Hint::DeleteNothing => "exclude it, or delete nothing",
            Hint::NothingListed => "nothing was deleted; is the source mounted?",
        })
    }
}

/// What a user can choose, as sentences about a run name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    DryRun,
    /// Bytes a second.
    Limit,
    /// How many there are.
    Workers,
    Verify,
    /// Files are compared by content.
    Content,
    Compress,
    /// Changed files move whole.
    Whole,
    ChunkSize,
}

impl Choice {
    /// Where no program has an option for it.
    pub fn word(self) -> &'static str {
        match self {
            Choice::DryRun => "dry run",
            Choice::Limit => "rate limit",
            Choice::Workers => "number of workers",
            Choice::Verify => "verification",
            Choice::Content => "comparison by content",
            Choice::Compress => "compression",
            Choice::Whole => "copying whole files",
            Choice::ChunkSize => "chunk size",
        }
    }
}
