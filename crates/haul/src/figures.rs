//! What a run took, as it is kept with its job for `haul why`: JSON of a few kilobytes, described in docs/json.md.

use std::time::{Duration, SystemTime};

use haul_core::report::Report;
use haul_core::spread::Spread;
use haul_core::store::RemoteWork;
use haul_core::verdict::{Ends, shares};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::spread::SpreadFigures;

/// Of the text; figures of another version are not read.
pub const VERSION: u32 = 1;

/// Times are seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Figures {
    pub version: u32,
    /// RFC 3339, UTC.
    pub ended: String,
    pub ending: String,
    pub source: String,
    pub destination: String,
    pub limiter: String,
    pub limited_by: String,
    pub next: Vec<String>,
    pub elapsed: f64,
    pub files: u64,
    pub bytes: u64,
    pub unchanged: u64,
    pub failed: u64,
    pub workers: Workers,
    pub processors: Processors,
    /// Where the workers' time went, the largest first.
    pub stages: Vec<StageTime>,
    /// Workers that had nothing to do.
    pub idle: f64,
    #[serde(alias = "far_source")]
    pub remote_source: Option<RemoteFigures>,
    #[serde(alias = "far_destination")]
    pub remote_destination: Option<RemoteFigures>,
    pub pace: Vec<Part>,
    /// How the work was spread over several ranks.
    pub ranks: Option<SpreadFigures>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Workers {
    pub peak: u32,
    pub end: u32,
    /// `-j` was given.
    pub fixed: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Processors {
    pub count: u32,
    pub busy: f64,
    /// Threads could have run and had none.
    pub queue: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StageTime {
    pub stage: String,
    pub meaning: String,
    pub seconds: f64,
    /// 0 to 1.
    pub share: f64,
}

/// What the other machine says that it did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RemoteFigures {
    pub host: String,
    pub reading: f64,
    pub writing: f64,
    pub metadata: f64,
    pub processor: f64,
    pub processors: u32,
    pub round_trip: Option<f64>,
}

/// Means over a part of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Part {
    pub until: f64,
    pub workers: f64,
    pub busy: f64,
    /// Moved since the start.
    pub bytes: u64,
}

fn seconds(d: Duration) -> f64 {
    thousandths(d.as_secs_f64())
}

fn thousandths(n: f64) -> f64 {
    (n * 1e3).round() / 1e3
}

impl Figures {
    /// `processors` of this machine, and whether the user said how many workers there are to be.
    pub fn of(report: &Report, ends: &Ends, (processors, fixed): (u32, bool), now: SystemTime) -> Figures {
        let figures = |work: Option<RemoteWork>, end: &haul_core::verdict::End| {
            let work = work?;
            Some(RemoteFigures {
                host: end.remote.as_ref().map_or(String::new(), |remote| remote.host.clone()),
                reading: seconds(work.reading),
                writing: seconds(work.writing),
                metadata: seconds(work.metadata),
                processor: seconds(work.cpu),
                processors: work.processors,
                round_trip: work.round_trip.map(|trip| (trip.as_secs_f64() * 1e6).round() / 1e6),
            })
        };
        let part = |point: &haul_core::pace::Point| Part {
            until: seconds(point.until),
            workers: thousandths(point.workers),
            busy: thousandths(point.busy),
            bytes: point.bytes,
        };
        Figures {
            version: VERSION,
            ended: Timestamp::try_from(now).map_or(String::new(), |at| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
            ending: report.ending.word().into(),
            source: ends.source.words.clone(),
            destination: ends.destination.words.clone(),
            limiter: report.limiter.word().into(),
            limited_by: report.limited_by.clone(),
            next: report.next.clone(),
            elapsed: seconds(report.elapsed),
            files: report.made.files,
            bytes: report.bytes,
            unchanged: report.kept.total(),
            failed: report.failed,
            workers: Workers { peak: report.workers_peak, end: report.workers_end, fixed },
            processors: Processors {
                count: processors,
                busy: thousandths(report.times.cpu.as_secs_f64() / report.elapsed.as_secs_f64().max(1e-9)),
                queue: seconds(report.times.queued),
            },
            stages: shares(report)
                .into_iter()
                .map(|share| StageTime {
                    stage: share.stage.word().into(),
                    meaning: crate::hints::meaning(share.stage).into(),
                    seconds: seconds(share.time),
                    share: thousandths(share.share),
                })
                .collect(),
            idle: seconds(report.times.idle),
            remote_source: figures(report.remote_source, &ends.source),
            remote_destination: figures(report.remote_destination, &ends.destination),
            pace: report.pace.points.iter().map(part).collect(),
            ranks: Spread::of(&report.ranks).as_ref().map(SpreadFigures::from),
        }
    }

    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// `None` for what another version has written, or nobody.
    pub fn read(text: &str) -> Option<Figures> {
        serde_json::from_str(text).ok().filter(|figures: &Figures| figures.version == VERSION)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::fixtures::copied;

    #[test]
    fn figures_are_read_as_they_were_written() {
        let mut report = copied();
        report.remote_destination = Some(RemoteWork { writing: Duration::from_millis(1500), processors: 3, ..RemoteWork::default() });
        report.pace.points.push(haul_core::pace::Point { until: Duration::from_secs(1), workers: 4.0, busy: 3.2521, bytes: 7 });
        let figures = Figures::of(&report, &Ends::default(), (2, true), SystemTime::UNIX_EPOCH + Duration::from_secs(86_400));
        assert_eq!(Figures::read(&figures.text()), Some(figures.clone()));
        assert_eq!((figures.ended.as_str(), figures.processors.busy, figures.pace[0].busy), ("1970-01-02T00:00:00Z", 1.199, 3.252));
        assert_eq!((figures.stages[0].stage.as_str(), figures.workers.fixed), ("network", true), "{figures:?}");
        assert_eq!(Figures::read("{\"version\":2}"), None);
        assert_eq!(Figures::read("files 3\n"), None);
        assert!(figures.text().len() < 8 << 10);
    }
}
