//! How long a job takes, and the limit that follows. Pure.

use std::time::Duration;

use crate::flags::slurm::Work;
use crate::units;

/// No job asks for more: most sites allow a day, and a copy can be resumed.
pub const MOST: Duration = Duration::from_secs(24 * 3600);

/// The least: start-up, and what is done once per run.
const LEAST: Duration = Duration::from_secs(30 * 60);

/// Limits are multiples of it.
const STEP: u64 = 15 * 60;

/// What has to be moved; `None` where nobody has counted it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    pub bytes: Option<u64>,
    pub files: Option<u64>,
}

/// The limit of a job, and the sentence that explains it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    pub time: Duration,
    pub because: String,
}

impl Limit {
    /// At most what the partition allows: a job that asks for more waits for ever.
    #[must_use]
    pub fn within(self, most: Option<Duration>, partition: &str, stopped: Stopped) -> Limit {
        match most.filter(|most| *most < self.time) {
            None => self,
            Some(time) => {
                let cut = format!("cut to {}, the limit of partition {partition}", units::duration(time));
                Limit { time, because: format!("{}; {cut}; {}", self.because, stopped.words()) }
            }
        }
    }
}

/// What follows when the limit stops a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    Requeued,
    /// By whoever submitted it.
    Resubmitted,
    /// A check, a list of sums and the like begin anew each time, and removing finds less.
    StartsOver,
}

impl Stopped {
    fn words(self) -> &'static str {
        match self {
            Stopped::Requeued => "the job runs again until all is done",
            Stopped::Resubmitted => "the job stops at its limit: submit it again to resume",
            Stopped::StartsOver => "the job stops at its limit: raise --time",
        }
    }
}

/// Half as much again as the rates say, rounded up.
pub fn limit(size: Size, work: &Work, given: Option<Duration>, stopped: Stopped) -> Limit {
    if let Some(time) = given {
        return Limit { time, because: "as given".into() };
    }
    if size == Size::default() {
        let because = format!("the size of the source is not known; {}", stopped.words());
        return Limit { time: MOST, because };
    }
    let seconds = |amount: Option<u64>, rate: u64| amount.unwrap_or(0) as f64 / rate.max(1) as f64;
    let whole = seconds(size.bytes, work.rate) + seconds(size.files, work.files_rate);
    let whole = Duration::from_secs_f64(whole.min(1e12));
    let steps = (whole.as_secs().saturating_mul(3) / 2).div_ceil(STEP);
    let time = Duration::from_secs(steps.saturating_mul(STEP)).clamp(LEAST, MOST);
    let bytes = size.bytes.map(|bytes| format!("{} at {}", units::bytes(bytes), units::rate(work.rate as f64)));
    let files = size.files.map(|files| format!("{} at {}/s", units::files(files), units::count(work.files_rate)));
    let parts: Vec<String> = [bytes, files].into_iter().flatten().collect();
    let more = if whole > MOST { format!("; {}", stopped.words()) } else { String::new() };
    Limit { time, because: format!("{}: about {}{more}", parts.join(", "), units::duration(whole)) }
}

/// `1-02:03:04` and so on, as Slurm has it: at least a minute.
pub fn slurm_time(time: Duration) -> String {
    let minutes = time.as_secs().div_ceil(60).max(1);
    let (days, hours, minutes) = (minutes / 1440, minutes / 60 % 24, minutes % 60);
    if days > 0 { format!("{days}-{hours:02}:{minutes:02}:00") } else { format!("{hours:02}:{minutes:02}:00") }
}

/// `26:03:00`, as PBS has it.
pub fn pbs_time(time: Duration) -> String {
    let minutes = time.as_secs().div_ceil(60).max(1);
    format!("{:02}:{:02}:00", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;
    const WORK: Work = Work { rate: GIB, files_rate: 1000, size: None, files: None, survey: Duration::ZERO };

    fn hours(h: f64) -> Duration {
        Duration::from_secs_f64(h * 3600.0)
    }

    #[test]
    fn the_limit_follows_from_bytes_and_files() {
        let of = |bytes, files| limit(Size { bytes, files }, &WORK, None, Stopped::Requeued);
        assert_eq!(of(Some(GIB), Some(3)).time, hours(0.5), "the least");
        assert_eq!(of(Some(3600 * GIB), Some(0)).time, hours(1.5));
        assert_eq!(of(Some(3600 * GIB), Some(3_600_000)).time, hours(3.0));
        assert_eq!(of(None, Some(3_600_001)).time, hours(1.5));
        assert_eq!(of(Some(u64::MAX), Some(u64::MAX)).time, MOST);
        assert_eq!(of(None, None).time, MOST);
        insta::assert_snapshot!(of(Some(3600 * GIB), Some(3_600_000)).because, @"3.52 TiB at 1.00 GiB/s, 3,600,000 files at 1,000/s: about 2h00m");
        assert!(of(Some(GIB), Some(1)).because.contains(", 1 file at "));
        let cut = of(Some(3600 * GIB), Some(0)).within(Some(hours(1.0)), "short", Stopped::Requeued);
        assert_eq!(cut.time, hours(1.0));
        assert!(
            cut.because.ends_with("; cut to 1h00m, the limit of partition short; the job runs again until all is done"),
            "{}",
            cut.because
        );
        assert_eq!(of(Some(GIB), Some(3)).within(Some(hours(1.0)), "short", Stopped::Requeued).time, hours(0.5));
        let given = limit(Size::default(), &WORK, Some(hours(0.1)), Stopped::Requeued);
        assert_eq!((given.time, given.because.as_str()), (hours(0.1), "as given"));
    }

    #[test]
    fn what_follows_at_the_limit_is_said_as_it_is() {
        for (stopped, words) in [
            (Stopped::Requeued, "; the job runs again until all is done"),
            (Stopped::Resubmitted, "; the job stops at its limit: submit it again to resume"),
            (Stopped::StartsOver, "; the job stops at its limit: raise --time"),
        ] {
            for size in [Size::default(), Size { bytes: Some(u64::MAX), files: None }] {
                let because = limit(size, &WORK, None, stopped).because;
                assert!(because.ends_with(words), "{because}");
            }
            assert!(!limit(Size { bytes: Some(GIB), files: None }, &WORK, None, stopped).because.contains("the job"));
        }
    }

    #[test]
    fn times_are_written_as_the_systems_have_them() {
        let seconds = Duration::from_secs;
        assert_eq!(slurm_time(seconds(1)), "00:01:00");
        assert_eq!(slurm_time(seconds(5400)), "01:30:00");
        assert_eq!(slurm_time(seconds(93_784)), "1-02:04:00");
        assert_eq!(pbs_time(seconds(93_784)), "26:04:00");
    }
}
