//! What the core says by codes, in words that name this program's options.

use std::borrow::Cow;

use haul_core::Error;
use haul_core::event::{Skipped, Why};
use haul_core::hint::{Choice, Hint};
use haul_core::verdict::Stage;

use crate::text::things;

/// The next step that an error knows of.
pub fn next_step(error: &Error) -> Option<String> {
    error.code().map(words).or_else(|| error.next_step().map(str::to_string))
}

pub fn words(hint: &Hint) -> String {
    match hint {
        Hint::Wait { kill: Some(pid), .. } => format!("wait for it with --wait, or stop it with: kill {pid}"),
        Hint::Wait { gone_in: Some(time), .. } => {
            format!("wait for it with --wait, or stop it on that host; if it is dead, rerun in {time}")
        }
        Hint::Wait { .. } => "wait for it with --wait".into(),
        Hint::ForgetJournal => "--restart discards it and starts over".into(),
        Hint::StateDirectory => "free space in the state directory, or choose another with --state-dir".into(),
        Hint::ReplaceOrKeep => "--force replaces it, --backup-dir keeps the old one".into(),
        Hint::ReplaceTree => "the directory is not empty; --force replaces it and its contents".into(),
        Hint::DeleteNothing => "exclude it, or omit --delete".into(),
        Hint::NothingListed => "nothing was deleted; check that the source is mounted, or add --force".into(),
    }
}

pub fn skipped(skipped: &Skipped) -> String {
    match skipped {
        Skipped::Impaired { names } => {
            let were = if *names == 1 { "was" } else { "were" };
            let names = things(*names, "extra name");
            format!("{names} at the destination {were} kept, because some files could not be listed or copied")
        }
        Skipped::TooMany { allowed, names } => {
            format!("--max-delete allows {allowed}, but {} would be deleted; nothing was deleted", things(*names, "name"))
        }
    }
}

pub fn why(why: Why) -> Cow<'static, str> {
    let words = match why {
        Why::New => "missing at destination",
        Why::Size(_) => "size differs",
        Why::Time(_) => "time differs",
        Why::Content(_) => "content differs",
        Why::Type => "type differs",
        Why::Target(_) => "link target differs",
        Why::Attributes(_) => "attributes differ",
        Why::Forced(_) => "forced by -I",
        Why::Same => "same",
        Why::Newer => "the destination is newer",
        Why::Policy => "skipped by --existing or --ignore-existing",
        Why::Extra => "missing at source",
        Why::Shadowed => "name conflict with an earlier source",
        Why::NotAsked => "not selected",
        Why::SameFile => "hard link to a copied file",
        Why::Unfinished => "left incomplete by an interrupted run",
        Why::Options(set) => return format!("lacks {}", set.words().join(", ")).into(),
    };
    words.into()
}

/// What a kind of work is, in at most 26 letters.
pub fn meaning(stage: Stage) -> &'static str {
    match stage {
        Stage::SourceReads => "reading data",
        Stage::SourceMetadata => "listing and opening files",
        Stage::Hashing => "hashing, comparing content",
        Stage::Network => "network between hosts",
        Stage::Copying => "in-kernel or server copy",
        Stage::DestinationWrites => "writing data",
        Stage::DestinationMetadata => "creates, lookups, deletes",
        Stage::Verifying => "reading back",
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
        assert_eq!(next_step(&error(Hint::ReplaceOrKeep)).unwrap(), "--force replaces it, --backup-dir keeps the old one");
        let there = Hint::Wait { kill: None, gone_in: Some("12 s".into()) };
        assert_eq!(next_step(&error(there)).unwrap(), "wait for it with --wait, or stop it on that host; if it is dead, rerun in 12 s");
        let plain = error(Hint::ReplaceTree).hint("ask");
        assert_eq!(next_step(&plain).as_deref(), Some("ask"));
        assert_eq!(
            skipped(&Skipped::TooMany { allowed: 1, names: 2 }),
            "--max-delete allows 1, but 2 names would be deleted; nothing was deleted"
        );
    }
}
