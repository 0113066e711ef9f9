//! What the tests of this module print.

use std::time::Duration;

use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name};
use haul_core::event::{InFlight, Progress};
use haul_core::forecast::Cost;
use haul_core::report::{Kinds, Report};

pub fn entry(path: &str, kind: Kind) -> Entry {
    let name = Name::parse(&Dir::root(), path.as_bytes()).expect("a path of a test");
    Entry { have: MetaMask::BASIC, size: 6_500, ..Entry::bare(name, kind) }
}

/// A minute and a half into a copy of many small files.
pub fn moving() -> Progress {
    Progress {
        elapsed: Duration::from_secs(90),
        found: 37_761,
        planned_files: 37_760,
        planned_bytes: 4_348_654_387,
        done_files: 12_345,
        moved_bytes: 1_288_490_189,
        walk_done: true,
        workers: 8,
        rate_now: 15.5 * 1048576.0,
        files_now: 141.4,
        cost: Cost { byte: 1.0 / (15.5 * 1048576.0), file: 0.0 },
        slowest: Some(InFlight {
            path: b"experiments/run7/output/d01/2024/wrfout_d01_2024-01-01_00:00:00.nc".to_vec(),
            size: 3_650_722_201,
            moved: 1_288_490_188,
            since: Duration::from_secs(12),
            doing: "write",
        }),
        phase: "copying",
        ..Progress::default()
    }
}

/// A copy of 37,760 files in which nothing special happened.
pub fn copied() -> Report {
    let all = Kinds { files: 37_760, dirs: 1, ..Kinds::default() };
    let mut report = Report {
        found: all,
        made: all,
        bytes: 245_440_000,
        file_bytes: 245_440_000,
        elapsed: Duration::from_millis(12_345),
        workers_peak: 16,
        workers_end: 8,
        limited_by: "writing the destination: 61% of the workers' time, with 8 workers and 1.2 of 2 processors busy".into(),
        ..Report::default()
    };
    report.times.walking = Duration::from_millis(1_200);
    report.times.reading = Duration::from_millis(20_100);
    report.times.writing = Duration::from_millis(60_200);
    report.times.metadata = Duration::from_millis(17_000);
    report.times.cpu = Duration::from_millis(14_800);
    report
}
