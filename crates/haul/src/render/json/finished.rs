//! The event `finished`: the report of a run.

use haul_core::report::{Failure, Kinds, Report, Times};
use haul_core::spread::Spread;
use serde::Serialize;

use crate::hints;
use crate::spread::SpreadFigures;

use super::{Path, error_word, seconds, tenths};

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
    replaced: Counts,
    hard_links: u64,
    renamed: Counts,
    unchanged: Counts,
    attributes: u64,
    options_set: Vec<OptionCount>,
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
    verified_by: Option<&'static str>,
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
    ranks: Option<SpreadFigures>,
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
struct OptionCount {
    option: &'static str,
    entries: u64,
}

#[derive(Serialize)]
struct RefusedCount {
    attribute: &'static str,
    entries: u64,
}

#[derive(Serialize)]
struct WorkTimes {
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
    fn of(t: &Times) -> Self {
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
            created: r.created().into(),
            replaced: r.replaced.into(),
            hard_links: r.hard_links,
            renamed: r.renamed.into(),
            unchanged: r.kept.into(),
            attributes: r.attributes,
            options_set: r.options_set.iter().map(|&(option, entries)| OptionCount { option, entries }).collect(),
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
            verified_by: r.proof,
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
            ranks: Spread::of(&r.ranks).as_ref().map(SpreadFigures::from),
        }
    }
}
