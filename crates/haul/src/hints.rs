//! What the core says by codes, in words that name this program's options.

use haul_core::Error;
use haul_core::event::{Skipped, Why};
use haul_core::hint::{Choice, Hint};
use haul_core::verdict::Stage;

/// The next step that an error knows of.
pub fn next_step(error: &Error) -> Option<String> {
    error.code().map(words).or_else(|| error.next_step().map(str::to_string))
}

pub fn words(hint: &Hint) -> String {
    match hint {
        Hint::Wait { kill: Some(pid), .. } => format!("wait for it with --wait, or stop it with: kill {pid}"),
        Hint::Wait { gone_in: Some(time), .. } => {
            format!("wait for it with --wait, or stop it there; if it is gone, run again in {time}")
        }
        Hint::Wait { .. } => "wait for it with --wait".into(),
        Hint::ForgetJournal => "--restart forgets what it says and begins anew".into(),
        Hint::StateDirectory => "the state directory must have room: --state-dir names another".into(),
        Hint::ReplaceOrKeep => "--force replaces it, --backup-dir keeps it elsewhere".into(),
        Hint::ReplaceTree => "the directory is not empty: --force replaces it with all that is in it".into(),
        Hint::DeleteNothing => "exclude it, or leave --delete out".into(),
    }
}

pub fn skipped(skipped: &Skipped) -> String {
    match skipped {
        Skipped::Impaired { names } => {
            format!("{names} names that only the destination has were left, because something could not be listed or copied")
        }
        Skipped::TooMany { allowed, names } => {
            format!("--max-delete allows {allowed}, {names} names would be deleted: nothing was")
        }
    }
}

pub fn why(why: Why) -> &'static str {
    match why {
        Why::New => "not at the destination",
        Why::Size => "size differs",
        Why::Time => "time differs",
        Why::Content => "content differs",
        Why::Type => "is of another kind",
        Why::Target => "points elsewhere",
        Why::Attributes => "attributes differ",
        Why::Forced => "copied all the same (-I)",
        Why::Same => "same",
        Why::Newer => "the destination is newer",
        Why::Policy => "left by --existing or --ignore-existing",
        Why::Extra => "not at the source",
        Why::Shadowed => "another source has this name",
        Why::NotAsked => "not asked for",
        Why::SameFile => "another name of the same file",
        Why::Unfinished => "begun by a run that did not finish",
    }
}

/// What a kind of work is, in at most 26 letters.
pub fn meaning(stage: Stage) -> &'static str {
    match stage {
        Stage::SourceReads => "waiting for its data",
        Stage::SourceMetadata => "listing and opening files",
        Stage::Hashing => "hashing, comparing content",
        Stage::Network => "the way between machines",
        Stage::Copying => "the system's own copying",
        Stage::DestinationWrites => "waiting until it took data",
        Stage::DestinationMetadata => "creates, look-ups, deletes",
        Stage::Verifying => "reading it back",
        Stage::Planning => "sorting, comparing names",
        Stage::Throttled => "waiting for --bwlimit",
    }
}

/// The options by which a user chooses.
pub fn option(choice: Choice) -> &'static str {
    match choice {
        Choice::DryRun => "--dry-run",
        Choice::Limit => "--bwlimit",
        Choice::Workers => "-j",
        Choice::Verify => "--verify",
        Choice::Content => "-c",
        Choice::Compress => "-z",
        Choice::Whole => "-W",
        Choice::ChunkSize => "--chunk-size",
    }
}

#[cfg(test)]
mod tests {
    use haul_core::ErrorKind;

    use super::*;

    #[test]
    fn a_code_has_the_words_of_the_program_and_other_steps_keep_theirs() {
        let error = |hint| Error::new(ErrorKind::Usage, "replace").advise(hint);
        assert_eq!(next_step(&error(Hint::ReplaceOrKeep)).unwrap(), "--force replaces it, --backup-dir keeps it elsewhere");
        let there = Hint::Wait { kill: None, gone_in: Some("12 s".into()) };
        assert_eq!(next_step(&error(there)).unwrap(), "wait for it with --wait, or stop it there; if it is gone, run again in 12 s");
        let plain = error(Hint::ReplaceTree).hint("ask");
        assert_eq!(next_step(&plain).as_deref(), Some("ask"));
        assert_eq!(skipped(&Skipped::TooMany { allowed: 1, names: 2 }), "--max-delete allows 1, 2 names would be deleted: nothing was");
    }
}
