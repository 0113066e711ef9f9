//! The event `progress`.

use haul_core::event::{InFlight, Progress};
use serde::Serialize;

use crate::spread::SpreadFigures;

use super::{Path, seconds, tenths};

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
    ranks: Option<SpreadFigures>,
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
            ranks: p.spread.as_ref().map(SpreadFigures::from),
        }
    }
}
