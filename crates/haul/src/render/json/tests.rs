use std::collections::BTreeMap;

use haul_core::entry::{Dir, Name};
use haul_core::event::Progress;
use haul_core::spread::{RankWork, Spread};
use haul_test::documented::{documented, keys};
use serde_json::Value;

use super::super::fixtures::{copied, entry, moving};
use super::*;

const TIME: &str = "2024-05-01T06:42:21.123Z";

fn every_record() -> Vec<String> {
    let error = Error::new(ErrorKind::Denied, "open").at(b"a/b").hint("chmod u+r it");
    let mut report = copied();
    report.fail(&error);
    report.refused.push(("owner", 3));
    report.options_set.push(("tags", 2));
    let slow = |rank, files, seconds| RankWork {
        rank,
        node: format!("n{rank}"),
        files,
        metadata: std::time::Duration::from_secs(seconds),
        ..RankWork::default()
    };
    report.ranks = vec![slow(0, 100, 5), slow(1, 100, 5), slow(2, 10, 5)];
    let moving = Progress { spread: Spread::of(&report.ranks), ..moving() };
    let file = entry("a/b", Kind::File);
    let records = [
        Record::Started {
            version: VERSION,
            plan: "copies a to b",
            dry: false,
            job: Some("3f2a"),
            sources: &["/a/".to_string()],
            destination: Some("/b"),
        },
        Record::Item(Item::of(Action::Create, Why::New, &file, false)),
        Record::Failed(Failed::of(&error, Kind::File)),
        Record::Retried(Retried::of(&error, Again { attempt: 1, of: 10, wait: std::time::Duration::ZERO })),
        Record::Refused(Refused::of(&file, MetaMask::OWNER.with(MetaMask::ACL))),
        Record::Warned(Warned::of(&Warning::SpaceShort { needed: 2, free: 1 })),
        Record::Tuned { workers: 8 },
        Record::Progress(Moment::of(&moving, 12)),
        Record::Finished(Box::new(Finished::of(&report))),
        Record::Checked(Checked::of(b"data", b"data.sums", Checks::default())),
        Record::Error(Failed::of(&Error::new(ErrorKind::NotFound, "open").at(b"a"), Kind::Unknown)),
    ];
    records.iter().map(|record| line(record, TIME)).collect()
}

#[test]
fn every_line_has_the_documented_keys_and_no_others() {
    let mut documented = documented();
    // Those of other commands, which have tests of their own.
    const OTHERS: &str =
        "doctor why haul_bench entry upload bucket usage class sum head tags acl state removed job cleaned changed linked file-system";
    for other in OTHERS.split(' ') {
        documented.remove(&other.replace('_', " "));
    }
    let mut produced = BTreeMap::new();
    for line in every_record() {
        let value: Value = serde_json::from_str(&line).expect("JSON");
        produced.insert(value["event"].as_str().unwrap_or_default().to_string(), keys(&value));
    }
    assert_eq!(produced, documented);
}

#[test]
fn lines_are_as_documented() {
    let lines = every_record();
    insta::assert_snapshot!(lines[1], @r#"{"time":"2024-05-01T06:42:21.123Z","event":"item","action":"create","why":"new","path":"a/b","path_hex":null,"kind":"file","size":6500,"target":null,"options":[],"dry":false}"#);
    insta::assert_snapshot!(lines[2], @r#"{"time":"2024-05-01T06:42:21.123Z","event":"failed","path":"a/b","path_hex":null,"kind":"file","operation":"open","error":"denied","reason":"permission denied","next_step":"chmod u+r it"}"#);
    insta::assert_snapshot!(lines[7], @r#"{"time":"2024-05-01T06:42:21.123Z","event":"progress","elapsed":90.0,"phase":"copying","found":37761,"planned_files":37760,"planned_bytes":4348654387,"done_files":12345,"moved_bytes":1288490189,"resumed_bytes":0,"unchanged":0,"failed":0,"retries":12,"walk_done":true,"workers":8,"bytes_per_second":16252928.0,"mean_bytes_per_second":14316557.7,"files_per_second":141.4,"seconds_left":188.284,"idle":0.0,"slowest":{"path":"experiments/run7/output/d01/2024/wrfout_d01_2024-01-01_00:00:00.nc","path_hex":null,"size":3650722201,"moved":1288490188,"seconds":12.0,"operation":"write"},"ranks":{"ranks":3,"nodes":3,"files":{"min":10,"median":100,"max":100},"bytes":{"min":0,"median":0,"max":0},"busy":{"min":0.0,"median":0.0,"max":0.0},"stragglers":[{"rank":2,"node":"n2","factor":10.0}]}}"#);
}

#[test]
fn names_that_are_no_text_come_in_hexadecimal_and_none_reaches_the_terminal_raw() {
    let mut hostile = entry("x", Kind::File);
    hostile.name = Name::new(&Dir::root(), b"\x1b[2J\n\xff\xc2\x9b\xe2\x80\xae\x7f\"\\\xf3\xa0\x81\x81");
    let line = line(&Record::Item(Item::of(Action::Create, Why::New, &hostile, false)), TIME);
    assert!(!line.chars().any(|c| c.is_control() || matches!(c, '\u{202e}' | '\u{e0041}')), "{line:?}");
    let value: Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(value["path"], "\u{1b}[2J\n\u{fffd}\u{9b}\u{202e}\u{7f}\"\\\u{e0041}");
    assert_eq!(value["path_hex"], "1b5b324a0affc29be280ae7f225cf3a08181");
}

#[test]
fn error_words_are_documented() {
    let text = include_str!("../../../../../docs/json.md");
    use ErrorKind as K;
    let all = [
        K::NotFound,
        K::Vanished,
        K::Exists,
        K::Denied,
        K::NoSpace,
        K::Quota,
        K::Limit,
        K::ReadOnly,
        K::Changed,
        K::Corrupt,
        K::Unsupported,
        K::Cancelled,
        K::Busy,
        K::TimedOut,
        K::Broken,
        K::BadName,
        K::Usage,
        K::Io,
        K::Other,
    ];
    for kind in all {
        assert!(text.contains(&format!("`{}`", error_word(kind))), "{kind:?}");
    }
}
