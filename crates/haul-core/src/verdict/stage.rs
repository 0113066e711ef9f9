//! The kinds of work that a run's time is divided among.

use std::time::Duration;

use crate::report::Report;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    SourceReads,
    SourceMetadata,
    Hashing,
    Network,
    Copying,
    DestinationWrites,
    DestinationMetadata,
    Verifying,
    Planning,
    Throttled,
}

/// What part of the workers' time one kind of work took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    pub stage: Stage,
    pub time: Duration,
    /// Of all time within tasks, 0..=1.
    pub share: f64,
}

impl Stage {
    pub const ALL: [Stage; 10] = [
        Stage::SourceReads,
        Stage::SourceMetadata,
        Stage::Hashing,
        Stage::Network,
        Stage::Copying,
        Stage::DestinationWrites,
        Stage::DestinationMetadata,
        Stage::Verifying,
        Stage::Planning,
        Stage::Throttled,
    ];

    /// As tables and JSON name it; stable.
    pub fn word(self) -> &'static str {
        match self {
            Stage::SourceReads => "source reads",
            Stage::SourceMetadata => "source metadata",
            Stage::Hashing => "hashing",
            Stage::Network => "network",
            Stage::Copying => "copying",
            Stage::DestinationWrites => "destination writes",
            Stage::DestinationMetadata => "destination metadata",
            Stage::Verifying => "verifying",
            Stage::Planning => "planning",
            Stage::Throttled => "bwlimit",
        }
    }

    pub(super) fn is_source(self) -> bool {
        matches!(self, Stage::SourceReads | Stage::SourceMetadata)
    }
}

/// The workers' time by kind of work, the largest first; kinds that took none are left out.
///
/// Where the other machine says how long it worked, what a worker waited beyond that is the network's. It works for one
/// worker in several threads, so that its own time may be the longer of the two: then nothing is the network's.
pub fn shares(report: &Report) -> Vec<Share> {
    let t = &report.times;
    let mut network = t.network;
    // What the remote host did, of what was waited for.
    let mut split = |waited: Duration, worked: Option<Duration>| match worked {
        Some(worked) if worked < waited => {
            network += waited - worked;
            worked
        }
        _ => waited,
    };
    let (source, destination) = (report.remote_source, report.remote_destination);
    let reads = split(t.reading, source.map(|work| work.reading));
    let source_meta = split(t.source_listing + t.opening, source.map(|work| work.metadata));
    let writes = split(t.writing, destination.map(|work| work.writing));
    let destination_meta = split(t.target_listing + t.metadata + t.effects, destination.map(|work| work.metadata));
    // One remote host pulls from the other: each says what it did of it.
    let copying = match (source, destination) {
        (Some(source), Some(destination)) => {
            let worked = source.reading.saturating_sub(t.reading) + destination.writing.saturating_sub(t.writing);
            split(t.copying, Some(worked))
        }
        _ => t.copying,
    };
    let planning = t.walking.saturating_sub(t.source_listing + t.target_listing);
    let mut all = vec![
        (Stage::SourceReads, reads),
        (Stage::SourceMetadata, source_meta),
        (Stage::Hashing, t.hashing),
        (Stage::Copying, copying),
        (Stage::DestinationWrites, writes),
        (Stage::DestinationMetadata, destination_meta),
        (Stage::Verifying, t.verifying),
        (Stage::Planning, planning),
        (Stage::Throttled, t.throttled),
        (Stage::Network, network),
    ];
    let sum: f64 = all.iter().map(|(_, time)| time.as_secs_f64()).sum::<f64>().max(1e-9);
    all.retain(|(_, time)| !time.is_zero());
    all.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
    all.into_iter().map(|(stage, time)| Share { stage, time, share: time.as_secs_f64() / sum }).collect()
}
