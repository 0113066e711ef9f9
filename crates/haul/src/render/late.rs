//! Whether a run ends before its deadline. Pure: the time comes in.

use std::time::Duration;

use crate::text::roughly;

/// An estimate counts when it has said the same for so long; the first seconds of a run promise anything.
const HOLDS: Duration = Duration::from_secs(10);

/// Watches the time that is left.
#[derive(Clone, Copy, Debug, Default)]
pub struct Late {
    /// When the run stops, since its beginning.
    stops: Option<Duration>,
    since: Option<Duration>,
    told: bool,
}

impl Late {
    pub fn new(stops: Option<Duration>) -> Late {
        Late { stops, ..Late::default() }
    }

    /// The warning, once.
    pub fn observe(&mut self, elapsed: Duration, eta: Option<Duration>) -> Option<String> {
        let stops = self.stops.filter(|_| !self.told)?;
        let left = stops.saturating_sub(elapsed);
        let Some(eta) = eta.filter(|eta| *eta > left) else {
            self.since = None;
            return None;
        };
        if elapsed.saturating_sub(*self.since.get_or_insert(elapsed)) < HOLDS {
            return None;
        }
        self.told = true;
        Some(format!(
            "about {} of work remain, but the run stops in {}; it keeps its journal, and the same command resumes it",
            roughly(eta),
            roughly(left)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn a_run_that_cannot_end_in_time_is_warned_of_once() {
        let mut late = Late::new(Some(seconds(600)));
        assert_eq!(late.observe(seconds(1), None), None);
        assert_eq!(late.observe(seconds(2), Some(seconds(5000))), None, "too early to tell");
        assert_eq!(late.observe(seconds(5), Some(seconds(100))), None);
        assert_eq!(late.observe(seconds(8), Some(seconds(5000))), None);
        assert_eq!(late.observe(seconds(17), Some(seconds(5000))), None);
        let told = late.observe(seconds(18), Some(seconds(7200))).unwrap();
        insta::assert_snapshot!(told, @"about 2 h 00 min of work remain, but the run stops in 9 min 42 s; it keeps its journal, and the same command resumes it");
        assert_eq!(late.observe(seconds(100), Some(seconds(7200))), None, "once");
    }

    #[test]
    fn nobody_is_warned_without_a_deadline_or_in_time() {
        let mut late = Late::new(None);
        assert!((0..100).all(|n| late.observe(seconds(n), Some(seconds(1 << 20))).is_none()));
        let mut late = Late::new(Some(seconds(600)));
        assert!((0..500).all(|n| late.observe(seconds(n), Some(seconds(90))).is_none()));
    }
}
