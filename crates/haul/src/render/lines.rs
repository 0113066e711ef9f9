//! Single lines: what happened to one name, a failure, a warning, a moment of the run. Pure.

use std::time::Duration;

use haul_core::entry::{Entry, Kind, MetaMask, show};
use haul_core::error::Error;
use haul_core::event::{Action, InFlight, Progress, Warning, Why};
use haul_core::retry::Again;

use crate::hints;
use crate::spread::SpreadFigures;

use crate::text::{bit_rate, bytes, bytes_of, clock, count, duration, middle, percent, rates, roughly, things};

/// Nothing moved and nothing found for this long is a stall and is named so. Shorter pauses are what a
/// busy file server does every minute.
pub const STALLED: Duration = Duration::from_secs(5);

/// What the progress shown is about beside `Progress` itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Around {
    pub retries: u64,
    /// For check: nothing is planned, entries are compared.
    pub check: bool,
    /// Bytes pass a network: on a terminal the rate is shown in bits, too, where there is room.
    pub network: bool,
}

/// One moment in one line for a job log: time since the start, files, bytes, rates, workers, time left.
pub fn progress(p: &Progress, around: Around) -> String {
    let mut parts = vec![clock(p.elapsed)];
    if !p.phase.is_empty() && p.phase != "copying" {
        parts.push(p.phase.to_string());
    }
    let least = if p.walk_done { "" } else { "at least " };
    if around.check || (p.planned_files == 0 && p.kept > 0) {
        parts.push(format!("{} compared", things(p.found, "entry")));
    } else {
        parts.push(format!("{} of {least}{} files", count(p.done_files), count(p.planned_files)));
    }
    let passed = p.moved_bytes + p.resumed_bytes;
    if p.planned_bytes > 0 {
        parts.push(bytes_of(passed.min(p.planned_bytes), p.planned_bytes, &format!(" of {least}")));
    } else if passed > 0 {
        parts.push(bytes(passed));
    }
    parts.push(rates(p.rate_now, p.rate_mean()));
    parts.push(things(u64::from(p.workers), "worker"));
    parts.extend(troubles(p, around));
    match stalled(p, usize::MAX) {
        Some(notice) => parts.push(format!("stalled: {notice}")),
        None => parts.push(left(p)),
    }
    parts.extend(p.spread.as_ref().map(|spread| SpreadFigures::from(spread).short()));
    parts.retain(|part| !part.is_empty());
    parts.join("  ")
}

/// ` (0.13 Gbit/s)`, the rate of now, for what passes a network.
pub fn bits(p: &Progress, around: Around) -> String {
    if around.network { format!(" ({})", bit_rate(p.rate_now)) } else { String::new() }
}

/// Failures and retries so far, where there are any.
pub fn troubles(p: &Progress, around: Around) -> Vec<String> {
    let mut parts = Vec::new();
    if p.failed > 0 {
        parts.push(format!("{} failed", count(p.failed)));
    }
    if around.retries > 0 {
        let word = if around.retries == 1 { "retry" } else { "retries" };
        parts.push(format!("{} {word}", count(around.retries)));
    }
    parts
}

/// The time left in words; while the walk runs there is none to name.
pub fn left(p: &Progress) -> String {
    if !p.walk_done {
        return "still listing".into();
    }
    match p.eta() {
        Some(Duration::ZERO) => String::new(),
        // A rate that has fallen to almost nothing would promise years.
        Some(d) if d < Duration::from_secs(100 * 86_400) => format!("about {} left", roughly(d)),
        _ => "time left unknown".into(),
    }
}

/// "no progress for 12 s; waiting for read of a/b", the path shortened so that the whole takes `width` columns.
pub fn stalled(p: &Progress, width: usize) -> Option<String> {
    (p.idle >= STALLED).then(|| {
        let notice = format!("no progress for {}", roughly(p.idle));
        match &p.slowest {
            Some(file) => {
                let notice = format!("{notice}; waiting for {} of ", doing(file));
                let room = width.saturating_sub(notice.len()).max(8);
                notice + &middle(&show(&file.path), room)
            }
            None => notice,
        }
    })
}

fn doing(file: &InFlight) -> &'static str {
    if file.doing.is_empty() { "copy" } else { file.doing }
}

/// The slowest file in flight, its path shortened so that the whole takes `width` columns.
pub fn slowest(file: &InFlight, width: usize) -> String {
    let tail = format!(
        "  {}  {} ({}%)  for {}",
        doing(file),
        bytes_of(file.moved.min(file.size), file.size, " of "),
        percent(file.moved, file.size),
        roughly(file.since)
    );
    let head = "slowest: ";
    let room = width.saturating_sub(head.len() + tail.len()).max(8);
    format!("{head}{}{tail}", middle(&show(&file.path), room))
}

/// The path of an entry as the terminal may show it; a directory with a slash at its end, the root as `./`.
pub fn path(entry: &Entry) -> String {
    let mut shown = show(&entry.name.path());
    if entry.kind == Kind::Dir {
        if shown.is_empty() {
            shown.push('.');
        }
        shown.push('/');
    }
    shown
}

/// `create      a/b`, for -v.
pub fn done(action: Action, entry: &Entry) -> String {
    format!("{:<10}  {}{}", action.word(), path(entry), leads_to(action, entry))
}

/// `create      not at the destination    a/b`, for -n and -vv: what, why and to whom, the columns aligned.
pub fn explained(action: Action, why: Why, entry: &Entry) -> String {
    format!("{:<10}  {:<24}  {}{}", action.word(), hints::why(why), path(entry), leads_to(action, entry))
}

/// Only -i names the first name of a hard link.
fn leads_to(action: Action, entry: &Entry) -> String {
    if action == Action::HardLink { String::new() } else { points_to(entry) }
}

fn points_to(entry: &Entry) -> String {
    entry.target.as_ref().map(|target| format!(" -> {}", show(target))).unwrap_or_default()
}

/// `cstpoguax` of attributes that differ.
fn letters(differ: MetaMask) -> String {
    let of = |mask: MetaMask, letter| if differ.has(mask) { letter } else { '.' };
    let [t, p, o] = [of(MetaMask::MTIME, 't'), of(MetaMask::MODE, 'p'), of(MetaMask::OWNER, 'o')];
    let [g, a, x] = [of(MetaMask::GROUP, 'g'), of(MetaMask::ACL, 'a'), of(MetaMask::XATTR, 'x')];
    format!("..{t}{p}{o}{g}.{a}{x}")
}

/// rsync's `--itemize-changes`: `YXcstpoguax path`. What an event does not say is `?`, as rsync writes it
/// for what an older peer does not tell. `no_times`: the time of what is written is that of the run.
pub fn itemised(action: Action, why: Why, entry: &Entry, no_times: bool) -> String {
    let letter = match entry.kind {
        Kind::Dir => 'd',
        Kind::Link => 'L',
        Kind::Char | Kind::Block => 'D',
        Kind::Fifo | Kind::Socket => 'S',
        Kind::File | Kind::Unknown => 'f',
    };
    const NEW: &str = "+++++++++";
    let written = !matches!(action, Action::SetMeta | Action::Differs);
    let first = |first: &str, differ| {
        let rest = &letters(differ)[2..];
        first.to_string() + &if no_times && written { format!("T{}", &rest[1..]) } else { rest.to_string() }
    };
    let moved = match why {
        Why::Size(differ) => first(".s", differ),
        Why::Time(differ) => first("..", differ.with(MetaMask::MTIME)),
        Why::Content(differ) | Why::Target(differ) => first("c.", differ),
        Why::Forced(differ) => first("..", differ),
        Why::Unfinished => ".??......".into(),
        Why::Same | Why::Newer | Why::Policy | Why::NotAsked => ".........".into(),
        Why::Attributes(differ) if !differ.is_empty() => letters(differ),
        Why::Attributes(_) if action == Action::HardLink => "         ".into(),
        Why::Attributes(_) | Why::Options(_) => "..????.??".into(),
        Why::New | Why::Type | Why::Extra | Why::Shadowed | Why::SameFile => NEW.to_string(),
    };
    let code = match action {
        Action::Delete | Action::Extra => "*deleting  ".to_string(),
        Action::Create | Action::Missing if entry.kind == Kind::File => format!(">f{NEW}"),
        Action::MakeDir | Action::Create | Action::Missing => format!("c{letter}{NEW}"),
        Action::Link | Action::Special => format!("c{letter}{moved}"),
        Action::Replace if entry.kind != Kind::File => format!("c{letter}{moved}"),
        Action::Replace | Action::Differs if !matches!(why, Why::Attributes(_)) => format!(">{letter}{moved}"),
        Action::Replace | Action::Differs | Action::SetMeta => format!(".{letter}{moved}"),
        Action::HardLink => return format!("h{letter}{moved} {}{}", path(entry), points_to(entry).replacen(" -> ", " => ", 1)),
        Action::Rename => format!("h{letter}{NEW}"),
        Action::Keep | Action::Skip => format!(".{letter}         "),
    };
    format!("{code} {}{}", path(entry), points_to(entry))
}

/// `a/b: write: No space left on device` and, where one is known, a second line with the next step.
pub fn failure(error: &Error) -> Vec<String> {
    let subject = error.path().map(|p| format!("{}: ", show_path(p))).unwrap_or_default();
    failure_lines("", &subject, error.op(), &error.reason(), hints::next_step(error).as_deref())
}

/// The words of an error come in part from the system and from servers: they are shown as names are.
pub fn failure_lines(lead: &str, subject: &str, op: &str, reason: &str, next_step: Option<&str>) -> Vec<String> {
    let mut lines = vec![format!("{lead}{subject}{op}: {}", plain(reason))];
    lines.extend(next_step.map(|step| format!("  try: {}", plain(step))));
    lines
}

/// The root of a store has an empty path.
pub fn show_path(path: &[u8]) -> String {
    if path.is_empty() { ".".into() } else { show(path) }
}

/// Text that is no name: control characters are taken out of it, a backslash stays one.
pub fn plain(text: &str) -> String {
    if text.chars().any(char::is_control) { show(text.as_bytes()).replace("\\\\", "\\") } else { text.to_string() }
}

pub fn retried(error: &Error, again: Again) -> String {
    let subject = error.path().map(|p| format!("{}: ", show_path(p))).unwrap_or_default();
    let Again { attempt, of, wait } = again;
    let next = if wait.is_zero() { "retrying now".to_string() } else { format!("retrying in {:.1} s", wait.as_secs_f64()) };
    format!("{subject}{}: {}; attempt {attempt} of {of} failed, {next}", error.op(), plain(&error.reason()))
}

pub fn refused(entry: &Entry, refused: MetaMask) -> String {
    format!("{}: not preserved: {}", path(entry), refused.words().join(", "))
}

pub fn warning(warning: &Warning) -> String {
    match warning {
        Warning::SpaceShort { needed, free } => format!(
            "the destination has {} free, but {} remain to be transferred: {} short",
            bytes(*free),
            bytes(*needed),
            bytes(needed.saturating_sub(*free))
        ),
        Warning::InodesShort { needed, free } => format!(
            "the destination has room for {} more files, but {} remain to be created: {} short",
            count(*free),
            count(*needed),
            count(needed.saturating_sub(*free))
        ),
        Warning::NoJournal(reason) => {
            format!("no journal ({}): a rerun skips finished files, but cannot resume inside a file", plain(reason))
        }
        Warning::Stalled { seconds, waiting_for } => {
            format!("no progress for {}; waiting for {}", duration(Duration::from_secs(*seconds)), plain(waiting_for))
        }
        Warning::DeletesSkipped(why) => format!("deletes skipped: {}", hints::skipped(why)),
        Warning::SetIdLeft(first) => format!(
            "setuid and setgid bits are dropped where owner names differ between source and destination, first for {}; \
             --numeric-ids preserves owners and bits by number",
            show(first)
        ),
        Warning::Note(words) => plain(words),
    }
}

#[cfg(test)]
mod tests {
    use haul_core::entry::{Dir, Name};

    use super::super::fixtures::{entry, moving};
    use super::*;

    #[test]
    fn a_moment_in_one_line() {
        let mut p = moving();
        insta::assert_snapshot!(progress(&p, Around::default()), @"00:01:30  12,345 of 37,760 files  1.20 of 4.05 GiB  15.5 MiB/s now, 13.7 mean  8 workers  about 3 min 08 s left");
        p.walk_done = false;
        p.failed = 3;
        insta::assert_snapshot!(progress(&p, Around { retries: 1, ..Around::default() }), @"00:01:30  12,345 of at least 37,760 files  1.20 of at least 4.05 GiB  15.5 MiB/s now, 13.7 mean  8 workers  3 failed  1 retry  still listing");
        p.walk_done = true;
        p.idle = Duration::from_secs(12);
        p.rate_now = 0.0;
        insta::assert_snapshot!(progress(&p, Around::default()), @"00:01:30  12,345 of 37,760 files  1.20 of 4.05 GiB  0 B/s now, 13.7 MiB/s mean  8 workers  3 failed  stalled: no progress for 12 s; waiting for write of experiments/run7/output/d01/2024/wrfout_d01_2024-01-01_00:00:00.nc");
        insta::assert_snapshot!(progress(&Progress::default(), Around::default()), @"00:00:00  0 of at least 0 files  0 B/s now, 0 mean  0 workers  still listing");
        let compared =
            Progress { found: 1_234_567, walk_done: true, workers: 4, phase: "comparing", elapsed: p.elapsed, ..Progress::default() };
        insta::assert_snapshot!(progress(&compared, Around { check: true, ..Around::default() }), @"00:01:30  comparing  1,234,567 entries compared  0 B/s now, 0 mean  4 workers");
    }

    #[test]
    fn itemised_lines_are_rsyncs() {
        use Action as A;
        let owners = MetaMask::OWNER.with(MetaMask::GROUP).with(MetaMask::XATTR);
        let table = [
            (A::Create, Why::New, Kind::File, ">f+++++++++ a/b"),
            (A::MakeDir, Why::New, Kind::Dir, "cd+++++++++ a/b/"),
            (A::Link, Why::New, Kind::Link, "cL+++++++++ a/b"),
            (A::Link, Why::Target(MetaMask::NONE), Kind::Link, "cLc........ a/b"),
            (A::Special, Why::New, Kind::Fifo, "cS+++++++++ a/b"),
            (A::Special, Why::New, Kind::Block, "cD+++++++++ a/b"),
            (A::HardLink, Why::SameFile, Kind::File, "hf+++++++++ a/b"),
            (A::Replace, Why::Size(MetaMask::NONE), Kind::File, ">f.s....... a/b"),
            (A::Replace, Why::Size(MetaMask::MTIME.with(MetaMask::MODE)), Kind::File, ">f.stp..... a/b"),
            (A::Replace, Why::Time(MetaMask::NONE), Kind::File, ">f..t...... a/b"),
            (A::Replace, Why::Content(MetaMask::NONE), Kind::File, ">fc........ a/b"),
            (A::Replace, Why::Type, Kind::File, ">f+++++++++ a/b"),
            (A::Replace, Why::Forced(MetaMask::NONE), Kind::File, ">f......... a/b"),
            (A::Replace, Why::Unfinished, Kind::File, ">f.??...... a/b"),
            (A::Replace, Why::Type, Kind::Dir, "cd+++++++++ a/b/"),
            (A::SetMeta, Why::Attributes(MetaMask::NONE), Kind::File, ".f..????.?? a/b"),
            (A::SetMeta, Why::Attributes(MetaMask::MODE), Kind::Dir, ".d...p..... a/b/"),
            (A::SetMeta, Why::Attributes(MetaMask::MTIME.with(MetaMask::ACL)), Kind::File, ".f..t....a. a/b"),
            (A::SetMeta, Why::Attributes(owners), Kind::File, ".f....og..x a/b"),
            (A::Delete, Why::Extra, Kind::File, "*deleting   a/b"),
            (A::Delete, Why::Extra, Kind::Dir, "*deleting   a/b/"),
            (A::Keep, Why::Same, Kind::File, ".f          a/b"),
            (A::Missing, Why::New, Kind::File, ">f+++++++++ a/b"),
            (A::Missing, Why::New, Kind::Dir, "cd+++++++++ a/b/"),
            (A::Differs, Why::Content(MetaMask::NONE), Kind::File, ">fc........ a/b"),
            (A::Differs, Why::Attributes(MetaMask::MODE), Kind::File, ".f...p..... a/b"),
            (A::Extra, Why::Extra, Kind::File, "*deleting   a/b"),
        ];
        for (action, why, kind, line) in table {
            assert_eq!(itemised(action, why, &entry("a/b", kind), false), line, "{action:?} {why:?} {kind:?}");
        }
        let mut link = entry("l", Kind::Link);
        link.target = Some(b"x\x1b".as_slice().into());
        assert_eq!(itemised(A::Link, Why::New, &link, false), "cL+++++++++ l -> x\\x1b");
        assert_eq!(itemised(A::HardLink, Why::SameFile, &link, false), "hL+++++++++ l => x\\x1b");
        assert_eq!(itemised(A::Replace, Why::Size(MetaMask::NONE), &entry("a", Kind::File), true), ">f.sT...... a");
    }

    #[test]
    fn columns_are_aligned_and_names_harmless() {
        let mut hostile = entry("a", Kind::File);
        hostile.name = Name::new(&Dir::root(), b"x\x1b[2J\n\xff");
        let lines = [
            explained(Action::Create, Why::New, &entry("a/b", Kind::File)),
            explained(Action::SetMeta, Why::Attributes(MetaMask::NONE), &entry("", Kind::Dir)),
            explained(Action::Replace, Why::Size(MetaMask::NONE), &hostile),
            done(Action::MakeDir, &entry("a", Kind::Dir)),
        ];
        insta::assert_snapshot!(lines.join("\n"), @r"
        create      missing at destination    a/b
        attributes  attributes differ         ./
        replace     size differs              x\x1b[2J\n\xff
        mkdir       a/
        ");
    }

    #[test]
    fn a_failure_says_what_to_try() {
        let e = Error::io(std::io::Error::from_raw_os_error(libc::EACCES), "open").at(b"a/\x1b").hint("chmod u+r\x1b it");
        insta::assert_snapshot!(failure(&e).join("\n"), @r"
        a/\x1b: open: Permission denied
          try: chmod u+r\x1b it
        ");
        insta::assert_snapshot!(retried(&e, Again { attempt: 2, of: 10, wait: std::time::Duration::from_millis(310) }), @r"a/\x1b: open: Permission denied; attempt 2 of 10 failed, retrying in 0.3 s");
    }

    #[test]
    fn warnings_name_what_is_short() {
        insta::assert_snapshot!(warning(&Warning::SpaceShort { needed: 5 << 30, free: 3 << 30 }), @"the destination has 3.00 GiB free, but 5.00 GiB remain to be transferred: 2.00 GiB short");
        insta::assert_snapshot!(warning(&Warning::InodesShort { needed: 2_000, free: 999 }), @"the destination has room for 999 more files, but 2,000 remain to be created: 1,001 short");
        insta::assert_snapshot!(warning(&Warning::Stalled { seconds: 75, waiting_for: "read of a/b".into() }), @"no progress for 1 min 15 s; waiting for read of a/b");
        insta::assert_snapshot!(warning(&Warning::NoJournal("Read-only file system".into())), @"no journal (Read-only file system): a rerun skips finished files, but cannot resume inside a file");
    }
}
