//! How busy a run was over time, as its supervisor saw it. Pure: the time comes in.
//!
//! Sums of work time do not show that seven of eight workers were idle while the eighth moved the last file; this does.

use std::time::Duration;

/// Points that are kept; when there would be more, two become one.
pub const POINTS: usize = 60;

/// What the supervisor sees at a tick.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Workers that may run, and those that have a task.
    pub workers: u32,
    pub busy: u32,
    /// Whether one worker more would find something to do.
    pub queued: bool,
    /// Nothing is left to list or to look up.
    pub walked: bool,
    /// Bytes moved since the start.
    pub bytes: u64,
    /// What is on its way the longest, asked for where only one worker is busy.
    pub file: Option<Alone>,
}

/// One file that moved while nothing else did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alone {
    pub path: Vec<u8>,
    /// Bytes.
    pub size: u64,
    /// How long it had been on its way when it was last seen.
    pub since: Duration,
    /// How long nothing else moved.
    pub alone: Duration,
}

/// Means over a part of the run, which ends at `until` and begins where the one before ends.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    pub until: Duration,
    pub workers: f64,
    pub busy: f64,
    /// Bytes moved since the start, at `until`.
    pub bytes: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pace {
    pub points: Vec<Point>,
    /// At least one worker was busy.
    pub active: Duration,
    /// The walk was going on and had found nothing more to do.
    pub hungry: Duration,
    /// The walk was over and all that was left to do was being done.
    pub tail: Duration,
    /// Of `tail`: one worker was busy.
    pub alone: Duration,
    /// Busy workers in the mean over `tail`, times its length in seconds.
    pub tail_work: f64,
    /// The file that moved alone for the longest time.
    pub file: Option<Alone>,
}

impl Eq for Pace {}

impl Pace {
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }
}

/// Makes a [`Pace`] of the moments that a supervisor sees.
#[derive(Debug, Default)]
pub struct Watch {
    pub pace: Pace,
    /// The file that moves alone now.
    current: Option<Alone>,
    /// The least time that one point covers.
    resolution: Duration,
    last: Duration,
}

impl Watch {
    /// Whether to ask what is on its way: only then is it of interest.
    pub fn wants_file(busy: u32, queued: bool, walked: bool) -> bool {
        busy == 1 && walked && !queued
    }

    /// `now` since the start, never less than before: the moment stands for the time since the last.
    pub fn observe(&mut self, now: Duration, moment: Moment) {
        let lasted = now.saturating_sub(self.last);
        if lasted.is_zero() {
            return;
        }
        self.last = now;
        if moment.busy > 0 {
            self.pace.active += lasted;
        }
        if !moment.queued && !moment.walked {
            self.pace.hungry += lasted;
        } else if !moment.queued && moment.busy > 0 {
            self.pace.tail += lasted;
            self.pace.tail_work += lasted.as_secs_f64() * f64::from(moment.busy);
            if moment.busy == 1 {
                self.pace.alone += lasted;
            }
        }
        if let Some(seen) = moment.file {
            self.saw(seen, lasted);
        }
        let point = Point { until: now, workers: moment.workers.into(), busy: moment.busy.into(), bytes: moment.bytes };
        let start = self.pace.points.len().checked_sub(2).map_or(Duration::ZERO, |i| self.pace.points[i].until);
        match self.pace.points.last_mut() {
            Some(last) if last.until.saturating_sub(start) < self.resolution => *last = joined(start, *last, point),
            _ => self.pace.points.push(point),
        }
        if self.pace.points.len() > POINTS {
            self.halve();
        }
    }

    fn saw(&mut self, seen: Alone, lasted: Duration) {
        let before = self.current.take().filter(|file| file.path == seen.path).map_or(Duration::ZERO, |file| file.alone);
        let now = Alone { alone: before + lasted, ..seen };
        if self.pace.file.as_ref().is_none_or(|longest| longest.alone < now.alone) {
            self.pace.file = Some(now.clone());
        }
        self.current = Some(now);
    }

    fn halve(&mut self) {
        let mut start = Duration::ZERO;
        let old = std::mem::take(&mut self.pace.points);
        for pair in old.chunks(2) {
            let point = match pair {
                [a, b] => joined(start, *a, *b),
                _ => pair[0],
            };
            self.pace.points.push(point);
            start = point.until;
        }
        let end = self.pace.points.last().map_or(Duration::ZERO, |point| point.until);
        self.resolution = end / (POINTS as u32 / 2);
    }
}

/// Two parts of the run as one, the first of which began at `start`.
fn joined(start: Duration, a: Point, b: Point) -> Point {
    let first = a.until.saturating_sub(start).as_secs_f64();
    let second = b.until.saturating_sub(a.until).as_secs_f64();
    let mean = |x: f64, y: f64| if first + second > 0.0 { (x * first + y * second) / (first + second) } else { y };
    Point { until: b.until, workers: mean(a.workers, b.workers), busy: mean(a.busy, b.busy), bytes: b.bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn moment(busy: u32, queued: bool) -> Moment {
        Moment { workers: 4, busy, queued, walked: true, ..Moment::default() }
    }

    #[test]
    fn a_tail_is_when_nothing_is_left_to_hand_out() {
        let mut watch = Watch::default();
        watch.observe(ms(100), Moment { walked: false, ..moment(1, false) });
        watch.observe(ms(300), moment(4, true));
        watch.observe(ms(400), moment(2, false));
        let file = |name: &str, since| Some(Alone { path: name.into(), size: 7, since, alone: Duration::ZERO });
        watch.observe(ms(500), Moment { file: file("a", ms(50)), ..moment(1, false) });
        for at in 6..10 {
            watch.observe(ms(at * 100), Moment { file: file("b", ms(at * 100 - 400)), ..moment(1, false) });
        }
        let pace = watch.pace;
        assert_eq!((pace.hungry, pace.tail, pace.alone, pace.active), (ms(100), ms(600), ms(500), ms(900)));
        assert!((pace.tail_work - 0.7).abs() < 1e-9, "{}", pace.tail_work);
        let file = pace.file.unwrap();
        assert_eq!((file.path.as_slice(), file.alone, file.since), (&b"b"[..], ms(400), ms(500)));
    }

    #[test]
    fn points_stay_few_and_keep_their_means() {
        let mut watch = Watch::default();
        for at in 1..=100_000_u64 {
            watch.observe(ms(at * 20), Moment { bytes: at, ..moment(u32::from(at % 2 == 0) * 4, true) });
        }
        let pace = watch.pace;
        assert!(pace.points.len() <= POINTS && pace.points.len() >= POINTS / 3, "{}", pace.points.len());
        let last = pace.points.last().unwrap();
        assert_eq!((last.until, last.bytes), (ms(2_000_000), 100_000));
        assert!(pace.points.iter().rev().skip(1).all(|p| (p.busy - 2.0).abs() < 0.1 && p.workers == 4.0), "{:?}", pace.points);
        assert!(pace.points.windows(2).all(|pair| pair[0].until < pair[1].until));
    }
}
