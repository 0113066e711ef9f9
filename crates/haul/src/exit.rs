//! The one place that knows the numbers with which haul ends: rsync's, where it has them.

use haul_core::job::Mode;
use haul_core::report::{Ending, Report};
use haul_core::{Error, ErrorKind};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exit {
    Success,
    Usage,
    /// check: not the same; the same number as `Usage`, as diff(1) has it.
    Differs,
    /// A usage error of check, which needs 1 for its answer.
    CheckUsage,
    /// --install-agent: no program for the far platform; the same number as `CheckUsage`, as rsync has it for ends that do
    /// not go together.
    Platform,
    Connection,
    Io,
    Signal,
    Partial,
    Vanished,
    TooManyDeletes,
    Timeout,
    Again,
}

/// Every way to end: number, when.
const EXITS: [(Exit, u8, &str); 13] = [
    (Exit::Success, 0, "success; special files may have been skipped without -D (a line reports it)"),
    (Exit::Usage, 1, "usage error; nothing was done"),
    (Exit::Differs, 1, "check: the trees differ"),
    (Exit::CheckUsage, 2, "check: usage error"),
    (Exit::Platform, 2, "--install-agent: the remote host has another operating system or CPU architecture"),
    (Exit::Connection, 10, "connection to the host or store lost; run again to resume"),
    (Exit::Io, 11, "fatal I/O error: disk full, quota exceeded, read-only; run again to resume"),
    (Exit::Signal, 20, "stopped by a signal; run again to resume"),
    (Exit::Partial, 23, "some files could not be copied, compared or removed; each is named"),
    (Exit::Vanished, 24, "some source files vanished during the run; everything else is done"),
    (Exit::TooManyDeletes, 25, "--max-delete would have been exceeded; everything was copied, nothing deleted"),
    (Exit::Timeout, 30, "no progress within --timeout; run again to resume"),
    (Exit::Again, 75, "stopped at --deadline or before the time limit of a batch job, or the job is already running; run again later"),
];

impl Exit {
    pub fn code(self) -> u8 {
        EXITS.iter().find(|(exit, ..)| *exit == self).map_or(1, |(_, code, _)| *code)
    }

    /// The end of several commands: what stops everything before what concerns one of them.
    pub fn or_worse(self, other: Exit) -> Exit {
        const WORST_FIRST: [Exit; 13] = [
            Exit::Signal,
            Exit::Io,
            Exit::Connection,
            Exit::Timeout,
            Exit::Again,
            Exit::Partial,
            Exit::Platform,
            Exit::CheckUsage,
            Exit::Usage,
            Exit::TooManyDeletes,
            Exit::Vanished,
            Exit::Differs,
            Exit::Success,
        ];
        WORST_FIRST.into_iter().find(|exit| *exit == self || *exit == other).unwrap_or(self)
    }

    /// The end of a run that has a report.
    pub fn of_report(report: &Report, mode: Mode) -> Exit {
        match report.ending {
            Ending::Interrupted => return Exit::Signal,
            Ending::Deadline => return Exit::Again,
            Ending::Timeout => return Exit::Timeout,
            Ending::Stopped => {
                let fatal = report.failed_kinds.iter().find(|kind| kind.ends_the_run()).or(report.failed_kinds.first());
                return fatal.map_or(Exit::Io, |kind| Exit::of_kind(*kind));
            }
            Ending::Complete | Ending::TooManyDeletes => {}
        }
        if report.failed > 0 {
            return Exit::Partial;
        }
        if report.ending == Ending::TooManyDeletes {
            return Exit::TooManyDeletes;
        }
        if mode == Mode::Check && report.missing + report.extra + report.differing > 0 {
            return Exit::Differs;
        }
        if report.vanished > 0 {
            return Exit::Vanished;
        }
        // Deletes are called off only for a reason; a run that did not do what was asked is not complete.
        if report.deletes_skipped.is_some() { Exit::Partial } else { Exit::Success }
    }

    /// The end of a command that an error stopped before or instead of a report.
    pub fn of_error(error: &Error, mode: Mode) -> Exit {
        if error.kind() == ErrorKind::Unsupported && error.op() == haul_ssh::ssh::install::OP {
            return Exit::Platform;
        }
        match (Exit::of_kind(error.kind()), mode) {
            (Exit::Usage, Mode::Check) => Exit::CheckUsage,
            (exit, _) => exit,
        }
    }

    fn of_kind(kind: ErrorKind) -> Exit {
        match kind {
            ErrorKind::Usage | ErrorKind::Unsupported => Exit::Usage,
            ErrorKind::Io | ErrorKind::NoSpace | ErrorKind::Quota | ErrorKind::Limit | ErrorKind::ReadOnly => Exit::Io,
            ErrorKind::Broken => Exit::Connection,
            ErrorKind::Cancelled => Exit::Signal,
            ErrorKind::Vanished => Exit::Vanished,
            ErrorKind::TimedOut => Exit::Timeout,
            ErrorKind::Busy => Exit::Again,
            ErrorKind::NotFound
            | ErrorKind::Exists
            | ErrorKind::Denied
            | ErrorKind::Changed
            | ErrorKind::Corrupt
            | ErrorKind::BadName
            | ErrorKind::Other => Exit::Partial,
            // A kind that this page does not know yet is at least no success.
            _ => Exit::Partial,
        }
    }
}

/// The most severe of the codes with which several processes ended.
pub fn worst(codes: &[u8]) -> u8 {
    let known = |code: &u8| EXITS.iter().find(|(_, number, _)| number == code).map_or(Exit::Partial, |(exit, ..)| *exit);
    codes.iter().map(known).fold(Exit::Success, Exit::or_worse).code()
}

/// `haul help exit-codes`.
pub fn page() -> String {
    let mut page = String::from("Exit codes. The numbers are rsync's where it has them.\n\n");
    for (_, code, when) in EXITS {
        for line in crate::text::fold(&format!("{code:>4}  {when}"), 80, 6) {
            page.push_str(&line);
            page.push('\n');
        }
    }
    page.push_str(
        "\nThe most severe code is returned: a signal, a deadline or a full disk, then\n\
         failed files, then --max-delete, then vanished files. In a Slurm job\n\
         --requeue has the job run again on 75.\n",
    );
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_error_has_a_code() {
        use ErrorKind as K;
        for (kind, code) in [
            (K::NotFound, 23),
            (K::Vanished, 24),
            (K::Exists, 23),
            (K::Denied, 23),
            (K::NoSpace, 11),
            (K::Quota, 11),
            (K::Limit, 11),
            (K::ReadOnly, 11),
            (K::Changed, 23),
            (K::Corrupt, 23),
            (K::Unsupported, 1),
            (K::Cancelled, 20),
            (K::Busy, 75),
            (K::TimedOut, 30),
            (K::Broken, 10),
            (K::BadName, 23),
            (K::Usage, 1),
            (K::Io, 11),
            (K::Other, 23),
        ] {
            assert_eq!(Exit::of_error(&Error::new(kind, "open"), Mode::Copy).code(), code, "{kind:?}");
        }
        assert_eq!(Exit::of_error(&Error::new(K::Usage, "open"), Mode::Check).code(), 2);
    }

    #[test]
    fn of_two_ends_the_worse_one_counts() {
        for (exit, ..) in EXITS {
            assert_eq!(exit.or_worse(exit), exit);
            assert_eq!(exit.or_worse(Exit::Success), exit);
            assert_eq!(Exit::Success.or_worse(exit), exit);
            assert_eq!(exit.or_worse(Exit::Signal), Exit::Signal);
        }
        assert_eq!(Exit::Usage.or_worse(Exit::Partial), Exit::Partial);
    }

    #[test]
    fn of_several_processes_the_most_severe_code_counts() {
        assert_eq!(worst(&[0, 0]), 0);
        assert_eq!(worst(&[0, 23, 0]), 23);
        assert_eq!(worst(&[24, 11, 23]), 11);
        assert_eq!(worst(&[75, 20, 75]), 20);
        assert_eq!(worst(&[0, 99]), 23, "a code that no page has");
    }

    fn report(change: impl FnOnce(&mut Report)) -> Report {
        let mut report = Report::default();
        change(&mut report);
        report
    }

    fn failed(kind: ErrorKind) -> impl FnOnce(&mut Report) {
        move |r| r.fail(&Error::new(kind, "open"))
    }

    #[test]
    fn a_report_ends_with_its_worst_thing() {
        let code = |report: &Report, mode| Exit::of_report(report, mode).code();
        let copy = |change: &dyn Fn(&mut Report)| code(&report(|r| change(r)), Mode::Copy);
        assert_eq!(copy(&|_| {}), 0);
        assert_eq!(copy(&|r| r.skipped.specials = 3), 0);
        assert_eq!(copy(&|r| failed(ErrorKind::Denied)(r)), 23);
        assert_eq!(copy(&|r| failed(ErrorKind::Io)(r)), 23, "one unreadable file does not stop a run");
        assert_eq!(copy(&|r| failed(ErrorKind::Vanished)(r)), 24);
        assert_eq!(
            copy(&|r| {
                failed(ErrorKind::Vanished)(r);
                failed(ErrorKind::Denied)(r);
            }),
            23
        );
        assert_eq!(copy(&|r| r.ending = Ending::TooManyDeletes), 25);
        assert_eq!(copy(&|r| r.ending = Ending::Interrupted), 20);
        assert_eq!(copy(&|r| r.ending = Ending::Deadline), 75);
        assert_eq!(copy(&|r| r.ending = Ending::Timeout), 30);
        assert_eq!(
            copy(&|r| {
                failed(ErrorKind::Denied)(r);
                failed(ErrorKind::NoSpace)(r);
                r.ending = Ending::Stopped;
            }),
            11
        );
        assert_eq!(
            copy(&|r| {
                failed(ErrorKind::TimedOut)(r);
                r.ending = Ending::Stopped;
            }),
            30
        );
        assert_eq!(
            copy(&|r| {
                failed(ErrorKind::Broken)(r);
                r.ending = Ending::Stopped;
            }),
            10
        );
        assert_eq!(code(&report(|r| r.missing = 1), Mode::Check), 1);
        assert_eq!(code(&report(|r| r.extra = 1), Mode::Check), 1);
        assert_eq!(code(&report(|_| {}), Mode::Check), 0);
    }

    #[test]
    fn the_page_has_every_code_once() {
        let words = page().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(page().lines().all(|line| line.len() <= 80));
        for (exit, code, when) in EXITS {
            assert_eq!(exit.code(), code);
            assert!(words.contains(&format!(" {code} {when}")), "{code}");
        }
    }
}
