//! `--json`: one event a line. These structs are the schema; `docs/json.md` describes it, and a test holds
//! the two together. Every key is always there, `null` where there is nothing to say. Keys may be added,
//! none is renamed or taken away within one `version`.

use std::borrow::Cow;
use std::time::Duration;

use haul_core::entry::{Entry, Kind, MetaMask, show};
use haul_core::error::{Error, ErrorKind};
use haul_core::event::{Action, InFlight, Progress, Warning, Why};
use haul_core::report::{Failure, Kinds, Report, Times};
use haul_core::retry::Again;
use serde::Serialize;

use crate::hints;

use super::listing::Checked;

/// Goes up when a key changes its meaning.
pub const VERSION: u32 = 1;

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Record<'a> {
    Started {
        version: u32,
        plan: &'a str,
        dry: bool,
        job: Option<&'a str>,
        sources: &'a [String],
        destination: Option<&'a str>,
    },
    /// A command that could not begin, or that ended without a report.
    Error(Failed),
    Item(Item),
    Failed(Failed),
    Retried(Retried),
    Refused(Refused),
    Warned(Warned),
    Tuned {
        workers: u32,
    },
    Progress(Moment),
    Finished(Box<Finished>),
    Checked(Checked<'a>),
}

/// A path: text with what is no UTF-8 replaced, and then all bytes in hexadecimal as well.
#[derive(Serialize)]
pub struct Path {
    path: String,
    path_hex: Option<String>,
}

impl Path {
    pub(super) fn of(path: &[u8]) -> Self {
        let (path, path_hex) = text(path);
        Path { path: path.into_owned(), path_hex }
    }
}

/// Bytes as text, what is no UTF-8 replaced, and then all of them in hexadecimal as well.
pub fn text(bytes: &[u8]) -> (Cow<'_, str>, Option<String>) {
    let hex = std::str::from_utf8(bytes).is_err().then(|| haul_core::hash::hex(bytes));
    (String::from_utf8_lossy(bytes), hex)
}

#[derive(Serialize)]
pub struct Item {
    action: &'static str,
    why: &'static str,
    #[serde(flatten)]
    path: Path,
    kind: &'static str,
    size: Option<u64>,
    target: Option<String>,
    dry: bool,
}

impl Item {
    pub fn of(action: Action, why: Why, entry: &Entry, dry: bool) -> Self {
        Item {
            action: action.word(),
            why: why.word(),
            path: Path::of(&entry.name.path()),
            kind: kind_word(entry.kind),
            size: (entry.kind == Kind::File).then_some(entry.size),
            target: entry.target.as_ref().map(|target| String::from_utf8_lossy(target).into_owned()),
            dry,
        }
    }

    /// Of a file that is known by a list.
    pub fn listed(action: Action, why: Why, path: &[u8], size: Option<u64>) -> Self {
        let kind = kind_word(Kind::File);
        Item { action: action.word(), why: why.word(), path: Path::of(path), kind, size, target: None, dry: false }
    }
}

pub(super) fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Char => "character-device",
        Kind::Block => "block-device",
        Kind::File | Kind::Dir | Kind::Link | Kind::Fifo | Kind::Socket | Kind::Unknown => kind.word(),
    }
}

#[derive(Serialize)]
pub struct Failed {
    #[serde(flatten)]
    path: Path,
    kind: &'static str,
    operation: &'static str,
    error: &'static str,
    reason: String,
    next_step: Option<String>,
}

impl Failed {
    pub fn of(error: &Error, kind: Kind) -> Self {
        Failed {
            path: Path::of(error.path().unwrap_or_default()),
            kind: kind_word(kind),
            operation: error.op(),
            error: error_word(error.kind()),
            reason: error.reason(),
            next_step: hints::next_step(error),
        }
    }
}

#[derive(Serialize)]
pub struct Retried {
    #[serde(flatten)]
    path: Path,
    operation: &'static str,
    error: &'static str,
    reason: String,
    attempt: u32,
    attempts: u32,
    wait_seconds: f64,
}

impl Retried {
    pub fn of(error: &Error, again: Again) -> Self {
        Retried {
            path: Path::of(error.path().unwrap_or_default()),
            operation: error.op(),
            error: error_word(error.kind()),
            reason: error.reason(),
            attempt: again.attempt,
            attempts: again.of,
            wait_seconds: again.wait.as_secs_f64(),
        }
    }
}

pub fn error_word(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NotFound => "not-found",
        ErrorKind::Vanished => "vanished",
        ErrorKind::Exists => "exists",
        ErrorKind::Denied => "denied",
        ErrorKind::NoSpace => "no-space",
        ErrorKind::Quota => "quota",
        ErrorKind::Limit => "limit",
        ErrorKind::ReadOnly => "read-only",
        ErrorKind::Changed => "changed",
        ErrorKind::Corrupt => "corrupt",
        ErrorKind::Unsupported => "unsupported",
        ErrorKind::Cancelled => "cancelled",
        ErrorKind::Busy => "busy",
        ErrorKind::TimedOut => "timed-out",
        ErrorKind::Broken => "broken",
        ErrorKind::BadName => "bad-name",
        ErrorKind::Usage => "usage",
        ErrorKind::Io => "io",
        _ => "other",
    }
}

#[derive(Serialize)]
pub struct Refused {
    #[serde(flatten)]
    path: Path,
    attributes: Vec<&'static str>,
}

impl Refused {
    pub fn of(entry: &Entry, refused: MetaMask) -> Self {
        Refused { path: Path::of(&entry.name.path()), attributes: refused.words() }
    }
}

#[derive(Serialize)]
pub struct Warned {
    warning: &'static str,
    message: String,
    needed: Option<u64>,
    free: Option<u64>,
    seconds: Option<u64>,
}

impl Warned {
    pub fn of(warning: &Warning) -> Self {
        let (needed, free) = match warning {
            Warning::SpaceShort { needed, free } | Warning::InodesShort { needed, free } => (Some(*needed), Some(*free)),
            _ => (None, None),
        };
        let seconds = match warning {
            Warning::Stalled { seconds, .. } => Some(*seconds),
            _ => None,
        };
        Warned { warning: warning.word(), message: super::lines::warning(warning), needed, free, seconds }
    }
}

#[derive(Serialize)]
pub struct Moment {
    elapsed: f64,
    phase: &'static str,
    found: u64,
    planned_files: u64,
    planned_bytes: u64,
    done_files: u64,
    moved_bytes: u64,
    resumed_bytes: u64,
    unchanged: u64,
    failed: u64,
    retries: u64,
    walk_done: bool,
    workers: u32,
    bytes_per_second: f64,
    mean_bytes_per_second: f64,
    files_per_second: f64,
    seconds_left: Option<f64>,
    idle: f64,
    slowest: Option<Slowest>,
}

#[derive(Serialize)]
struct Slowest {
    #[serde(flatten)]
    path: Path,
    size: u64,
    moved: u64,
    seconds: f64,
    operation: &'static str,
}

impl Moment {
    pub fn of(p: &Progress, retries: u64) -> Self {
        let slowest =
            |f: &InFlight| Slowest { path: Path::of(&f.path), size: f.size, moved: f.moved, seconds: seconds(f.since), operation: f.doing };
        Moment {
            elapsed: seconds(p.elapsed),
            phase: p.phase,
            found: p.found,
            planned_files: p.planned_files,
            planned_bytes: p.planned_bytes,
            done_files: p.done_files,
            moved_bytes: p.moved_bytes,
            resumed_bytes: p.resumed_bytes,
            unchanged: p.kept,
            failed: p.failed,
            retries,
            walk_done: p.walk_done,
            workers: p.workers,
            bytes_per_second: tenths(p.rate_now),
            mean_bytes_per_second: tenths(p.rate_mean()),
            files_per_second: tenths(p.files_now),
            seconds_left: p.eta().map(seconds),
            idle: seconds(p.idle),
            slowest: p.slowest.as_ref().map(slowest),
        }
    }
}

#[derive(Serialize)]
struct Counts {
    files: u64,
    directories: u64,
    symlinks: u64,
    specials: u64,
}

impl From<Kinds> for Counts {
    fn from(k: Kinds) -> Self {
        Counts { files: k.files, directories: k.dirs, symlinks: k.links, specials: k.specials }
    }
}

#[derive(Serialize)]
pub struct Finished {
    ending: &'static str,
    dry: bool,
    elapsed: f64,
    found: Counts,
    created: Counts,
    /// The old name of `created`, for one release.
    made: Counts,
    hard_links: u64,
    renamed: Counts,
    unchanged: Counts,
    attributes: u64,
    deleted: Counts,
    left: Counts,
    skipped: Counts,
    vanished: u64,
    failed: u64,
    errors: Vec<&'static str>,
    failures: Vec<ReportedFailure>,
    bytes: u64,
    file_bytes: u64,
    resumed_bytes: u64,
    reused_bytes: u64,
    verified_files: u64,
    verified_bytes: u64,
    proof: Option<&'static str>,
    refused: Vec<RefusedCount>,
    missing: u64,
    extra: u64,
    differing: u64,
    retries: u64,
    bytes_per_second: f64,
    files_per_second: f64,
    workers_peak: u32,
    workers_end: u32,
    times: WorkTimes,
    deletes_skipped: Option<String>,
    limiter: &'static str,
    limited_by: String,
    next: Vec<String>,
}

#[derive(Serialize)]
struct ReportedFailure {
    #[serde(flatten)]
    path: Path,
    operation: &'static str,
    error: &'static str,
    reason: String,
    next_step: Option<String>,
}

impl From<&Failure> for ReportedFailure {
    fn from(f: &Failure) -> Self {
        ReportedFailure {
            path: Path::of(&f.path),
            operation: f.op,
            error: error_word(f.kind),
            reason: f.reason.clone(),
            next_step: f.code.as_ref().map(hints::words).or_else(|| f.next_step.clone()),
        }
    }
}

#[derive(Serialize)]
struct RefusedCount {
    attribute: &'static str,
    entries: u64,
}

#[derive(Serialize)]
pub struct WorkTimes {
    walking: f64,
    source_listing: f64,
    destination_listing: f64,
    opening: f64,
    reading: f64,
    writing: f64,
    copying: f64,
    metadata: f64,
    hashing: f64,
    verifying: f64,
    network: f64,
    throttled: f64,
    idle: f64,
    processor: f64,
    processor_queue: f64,
}

impl WorkTimes {
    pub fn of(t: &Times) -> Self {
        WorkTimes {
            walking: seconds(t.walking),
            source_listing: seconds(t.source_listing),
            destination_listing: seconds(t.target_listing),
            opening: seconds(t.opening),
            reading: seconds(t.reading),
            writing: seconds(t.writing),
            copying: seconds(t.copying),
            metadata: seconds(t.metadata + t.effects),
            hashing: seconds(t.hashing),
            verifying: seconds(t.verifying),
            network: seconds(t.network),
            throttled: seconds(t.throttled),
            idle: seconds(t.idle),
            processor: seconds(t.cpu),
            processor_queue: seconds(t.queued),
        }
    }
}

impl Finished {
    pub fn of(r: &Report) -> Self {
        let (files_rate, bytes_rate) = r.rates();
        Finished {
            ending: r.ending.word(),
            dry: r.dry,
            elapsed: seconds(r.elapsed),
            found: r.found.into(),
            created: r.made.into(),
            made: r.made.into(),
            hard_links: r.hard_links,
            renamed: r.renamed.into(),
            unchanged: r.kept.into(),
            attributes: r.attributes,
            deleted: r.deleted.into(),
            left: r.left.into(),
            skipped: r.skipped.into(),
            vanished: r.vanished,
            failed: r.failed,
            errors: r.failed_kinds.iter().map(|kind| error_word(*kind)).collect(),
            failures: r.failures.iter().map(ReportedFailure::from).collect(),
            bytes: r.bytes,
            file_bytes: r.file_bytes,
            resumed_bytes: r.resumed_bytes,
            reused_bytes: r.reused_bytes,
            verified_files: r.verified_files,
            verified_bytes: r.verified_bytes,
            proof: r.proof,
            refused: r.refused.iter().map(|&(attribute, entries)| RefusedCount { attribute, entries }).collect(),
            missing: r.missing,
            extra: r.extra,
            differing: r.differing,
            retries: r.retries,
            bytes_per_second: tenths(bytes_rate),
            files_per_second: tenths(files_rate),
            workers_peak: r.workers_peak,
            workers_end: r.workers_end,
            times: WorkTimes::of(&r.times),
            deletes_skipped: r.deletes_skipped.as_ref().map(hints::skipped),
            limiter: r.limiter.word(),
            limited_by: r.limited_by.clone(),
            next: r.next.clone(),
        }
    }
}

fn seconds(d: Duration) -> f64 {
    (d.as_secs_f64() * 1e3).round() / 1e3
}

/// No more digits than mean something; what is no number is 0, for JSON has no other.
fn tenths(n: f64) -> f64 {
    if n.is_finite() { (n * 10.0).round() / 10.0 } else { 0.0 }
}

/// One line without its end. `time` is RFC 3339 in UTC.
pub fn line(record: &Record<'_>, time: &str) -> String {
    #[derive(Serialize)]
    struct Line<'a> {
        time: &'a str,
        #[serde(flatten)]
        record: &'a Record<'a>,
    }
    let line = serde_json::to_string(&Line { time, record }).expect("strings and numbers under string keys are always JSON");
    harmless(line)
}

/// JSON leaves control characters above 0x7e and those that reorder text as they are; as an escape they
/// cannot write to a terminal either. They can only stand within strings.
pub fn harmless(line: String) -> String {
    let hostile =
        |c: char| !c.is_ascii_graphic() && c != ' ' && (c.is_control() || show(c.encode_utf8(&mut [0; 4]).as_bytes()).starts_with('\\'));
    if line.is_ascii() && !line.contains('\x7f') || !line.chars().any(hostile) {
        return line;
    }
    let mut out = String::with_capacity(line.len() + 16);
    for c in line.chars() {
        match hostile(c) {
            true => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}"))),
            false => out.push(c),
        }
    }
    out
}

#[cfg(test)]
pub mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use haul_core::entry::{Dir, Name};
    use serde_json::Value;

    use super::super::fixtures::{copied, entry, moving};
    use super::super::listing::Checks;
    use super::*;

    const TIME: &str = "2024-05-01T06:42:21.123Z";

    /// `## event` and, below it, rows of a table that begin with a key in backquotes.
    pub fn documented() -> BTreeMap<String, BTreeSet<String>> {
        let mut events = BTreeMap::new();
        let mut event = String::new();
        for row in include_str!("../../../../docs/json.md").lines() {
            if let Some(head) = row.strip_prefix("## `") {
                event = head.trim_end_matches('`').to_string();
                events.insert(event.clone(), BTreeSet::new());
            } else if let (Some(key), Some(keys)) = (row.strip_prefix("| `"), events.get_mut(&event)) {
                keys.insert(key.split('`').next().unwrap_or_default().to_string());
            }
        }
        events
    }

    /// Keys of a value, those of objects within it as `outer.inner` and `outer[].inner`.
    pub fn keys(prefix: &str, value: &Value, out: &mut BTreeSet<String>) {
        match value {
            Value::Object(map) => {
                for (key, inner) in map {
                    let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                    out.insert(key.clone());
                    keys(&key, inner, out);
                }
            }
            Value::Array(list) => list.iter().for_each(|inner| keys(&format!("{prefix}[]"), inner, out)),
            _ => {}
        }
    }

    fn every_record() -> Vec<String> {
        let error = Error::new(ErrorKind::Denied, "open").at(b"a/b").hint("chmod u+r it");
        let mut report = copied();
        report.fail(&error);
        report.refused.push(("owner", 3));
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
            Record::Progress(Moment::of(&moving(), 12)),
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
            "doctor why haul_bench entry upload bucket usage class sum head removed job cleaned changed linked file-system";
        for other in OTHERS.split(' ') {
            documented.remove(&other.replace('_', " "));
        }
        let mut produced = BTreeMap::new();
        for line in every_record() {
            let value: Value = serde_json::from_str(&line).expect("JSON");
            let mut found = BTreeSet::new();
            keys("", &value, &mut found);
            produced.insert(value["event"].as_str().unwrap_or_default().to_string(), found);
        }
        assert_eq!(produced, documented);
    }

    #[test]
    fn lines_are_as_documented() {
        let lines = every_record();
        insta::assert_snapshot!(lines[1], @r#"{"time":"2024-05-01T06:42:21.123Z","event":"item","action":"create","why":"new","path":"a/b","path_hex":null,"kind":"file","size":6500,"target":null,"dry":false}"#);
        insta::assert_snapshot!(lines[2], @r#"{"time":"2024-05-01T06:42:21.123Z","event":"failed","path":"a/b","path_hex":null,"kind":"file","operation":"open","error":"denied","reason":"permission denied","next_step":"chmod u+r it"}"#);
        insta::assert_snapshot!(lines[7], @r#"{"time":"2024-05-01T06:42:21.123Z","event":"progress","elapsed":90.0,"phase":"copying","found":37761,"planned_files":37760,"planned_bytes":4348654387,"done_files":12345,"moved_bytes":1288490189,"resumed_bytes":0,"unchanged":0,"failed":0,"retries":12,"walk_done":true,"workers":8,"bytes_per_second":16252928.0,"mean_bytes_per_second":14316557.7,"files_per_second":141.4,"seconds_left":188.284,"idle":0.0,"slowest":{"path":"experiments/run7/output/d01/2024/wrfout_d01_2024-01-01_00:00:00.nc","path_hex":null,"size":3650722201,"moved":1288490188,"seconds":12.0,"operation":"write"}}"#);
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
        let text = include_str!("../../../../docs/json.md");
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
}
