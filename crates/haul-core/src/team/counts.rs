//! A report on its way to another rank: what adds up, and the failures by value.

use std::time::Duration;

use crate::error::{Error, ErrorKind};
use crate::intern::intern;
use crate::report::{Ending, FAILURES_KEPT, Failure, Kinds, Report, Times};
use crate::spread::RankWork;
use crate::varint;

use super::wire::{Cursor, put_all, put_bytes};

/// Kinds of errors by the number that stands for them.
const ERRORS: [ErrorKind; 19] = [
    ErrorKind::NotFound,
    ErrorKind::Vanished,
    ErrorKind::Exists,
    ErrorKind::Denied,
    ErrorKind::NoSpace,
    ErrorKind::Quota,
    ErrorKind::Limit,
    ErrorKind::ReadOnly,
    ErrorKind::Changed,
    ErrorKind::Corrupt,
    ErrorKind::Unsupported,
    ErrorKind::Cancelled,
    ErrorKind::Busy,
    ErrorKind::TimedOut,
    ErrorKind::Broken,
    ErrorKind::BadName,
    ErrorKind::Usage,
    ErrorKind::Io,
    ErrorKind::Other,
];

const ENDINGS: [Ending; 6] =
    [Ending::Complete, Ending::Interrupted, Ending::Deadline, Ending::Timeout, Ending::Stopped, Ending::TooManyDeletes];

fn position<T: PartialEq>(table: &[T], value: &T) -> u64 {
    table.iter().position(|known| known == value).unwrap_or(table.len() - 1) as u64
}

/// What adds up, in one order for both directions.
fn numbers(r: &mut Report) -> Vec<&mut u64> {
    let mut all: Vec<&mut u64> = Vec::with_capacity(52);
    let kinds = [&mut r.found, &mut r.made, &mut r.replaced, &mut r.renamed, &mut r.kept, &mut r.deleted, &mut r.left, &mut r.skipped];
    for Kinds { files, dirs, links, specials } in kinds {
        all.extend([files, dirs, links, specials]);
    }
    all.extend([&mut r.hard_links, &mut r.attributes, &mut r.vanished, &mut r.failed, &mut r.bytes, &mut r.file_bytes]);
    all.extend([&mut r.resumed_bytes, &mut r.reused_bytes, &mut r.verified_files, &mut r.verified_bytes]);
    all.extend([&mut r.missing, &mut r.extra, &mut r.differing, &mut r.retries, &mut r.passed_over]);
    all
}

fn durations(t: &mut Times) -> [&mut Duration; 16] {
    let Times {
        walking,
        source_listing,
        target_listing,
        opening,
        reading,
        writing,
        copying,
        metadata,
        effects,
        hashing,
        verifying,
        network,
        throttled,
        idle,
        cpu,
        queued,
    } = t;
    [
        walking,
        source_listing,
        target_listing,
        opening,
        reading,
        writing,
        copying,
        metadata,
        effects,
        hashing,
        verifying,
        network,
        throttled,
        idle,
        cpu,
        queued,
    ]
}

/// An error, for another rank that reports it.
pub fn put_error(out: &mut Vec<u8>, e: &Error) {
    varint::put(out, position(&ERRORS, &e.kind()));
    put_bytes(out, e.op().as_bytes());
    // Nothing is at an empty path.
    put_bytes(out, e.path().unwrap_or_default());
    put_bytes(out, e.reason().as_bytes());
    put_bytes(out, e.next_step().unwrap_or_default().as_bytes());
}

/// What [`put_error`] has put.
pub fn take_error(from: &mut Cursor<'_>) -> Option<Error> {
    let kind = *ERRORS.get(from.small()? as usize)?;
    let (op, path, reason, next_step) = (intern(&from.text()?), from.bytes()?, from.text()?, from.text()?);
    let e = Error::new(kind, op).because(reason);
    let e = if path.is_empty() { e } else { e.at(path) };
    Some(if next_step.is_empty() { e } else { e.hint(next_step) })
}

pub fn encode(report: &Report) -> Vec<u8> {
    let (mut report, mut out) = (report.clone(), Vec::new());
    let mut put = |number: u64| varint::put(&mut out, number);
    put(position(&ENDINGS, &report.ending));
    put(u64::from(report.workers_peak));
    put(u64::from(report.workers_end));
    put(report.elapsed.as_nanos() as u64);
    numbers(&mut report).into_iter().for_each(|number| put(*number));
    durations(&mut report.times).into_iter().for_each(|time| put(time.as_nanos() as u64));
    put(report.failed_kinds.len() as u64);
    report.failed_kinds.iter().for_each(|kind| put(position(&ERRORS, kind)));
    for counts in [&report.refused, &report.denied, &report.options_set] {
        varint::put(&mut out, counts.len() as u64);
        for (word, n) in counts {
            put_bytes(&mut out, word.as_bytes());
            varint::put(&mut out, *n);
        }
    }
    put_bytes(&mut out, report.proof.unwrap_or_default().as_bytes());
    varint::put(&mut out, report.ranks.len() as u64);
    for work in &report.ranks {
        varint::put(&mut out, u64::from(work.rank));
        put_bytes(&mut out, work.node.as_bytes());
        put_all(&mut out, &work.numbers());
    }
    varint::put(&mut out, report.failures.len() as u64);
    for failure in &report.failures {
        varint::put(&mut out, position(&ERRORS, &failure.kind));
        put_bytes(&mut out, &failure.path);
        put_bytes(&mut out, failure.op.as_bytes());
        put_bytes(&mut out, failure.reason.as_bytes());
        put_bytes(&mut out, failure.next_step.as_deref().unwrap_or_default().as_bytes());
    }
    out
}

pub fn decode(bytes: &[u8]) -> Option<Report> {
    let mut from = Cursor(bytes);
    let mut report = Report { ending: *ENDINGS.get(from.small()? as usize)?, ..Report::default() };
    (report.workers_peak, report.workers_end) = (from.small()?, from.small()?);
    report.elapsed = Duration::from_nanos(from.number()?);
    for number in numbers(&mut report) {
        *number = from.number()?;
    }
    for time in durations(&mut report.times) {
        *time = Duration::from_nanos(from.number()?);
    }
    for _ in 0..from.number()?.min(ERRORS.len() as u64) {
        report.failed_kinds.push(*ERRORS.get(from.small()? as usize)?);
    }
    for counts in [&mut report.refused, &mut report.denied, &mut report.options_set] {
        for _ in 0..from.number()?.min(64) {
            counts.push((intern(&from.text()?), from.number()?));
        }
    }
    report.proof = Some(from.text()?).filter(|proof| !proof.is_empty()).map(|proof| intern(&proof));
    // Each rank speaks for itself.
    for _ in 0..from.number()?.min(1) {
        let (rank, node, mut numbers) = (from.small()?, from.text()?, [0; RankWork::NUMBERS]);
        for number in &mut numbers {
            *number = from.number()?;
        }
        report.ranks.push(RankWork::from_numbers(rank, node, numbers));
    }
    for _ in 0..from.number()?.min(FAILURES_KEPT as u64) {
        let kind = *ERRORS.get(from.small()? as usize)?;
        let (path, op, reason) = (from.bytes()?.to_vec(), intern(&from.text()?), from.text()?);
        let next_step = Some(from.text()?).filter(|step| !step.is_empty());
        report.failures.push(Failure { path, op, kind, reason, next_step, code: None });
    }
    from.is_empty().then_some(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_adds_up_and_failures_arrive() {
        let mut report = Report { ending: Ending::Deadline, workers_peak: 3, workers_end: 2, ..Report::default() };
        report.elapsed = Duration::from_millis(1234);
        for (n, number) in numbers(&mut report).into_iter().enumerate() {
            *number = 1000 + n as u64;
        }
        for (n, time) in durations(&mut report.times).into_iter().enumerate() {
            *time = Duration::from_nanos(n as u64 + 7);
        }
        report.refused = vec![("owner", 3)];
        report.denied = vec![("mode", 2)];
        report.options_set = vec![("tags", 2), ("metadata", 1)];
        report.proof = Some("reread");
        report.ranks.push(RankWork::from_numbers(7, "n3".into(), [1, 2, 3, 4, 5, 6, 7, 8]));
        report.fail(&Error::new(ErrorKind::Denied, "open").at(b"a/b").because("no").hint("ask"));
        let bytes = encode(&report);
        assert_eq!(decode(&bytes).as_ref(), Some(&report));
        for cut in 0..bytes.len() {
            assert_eq!(decode(&bytes[..cut]), None, "cut at {cut}");
        }
    }
}
