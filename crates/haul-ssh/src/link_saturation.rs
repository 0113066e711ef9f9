//! Whether the one connection that all sessions of a login share is full, so that further logins gain.

use std::time::{Duration, Instant};

/// Makes further logins; how many.
pub type Widen = dyn Fn() -> usize + Send + Sync;

/// A round trip below this is that of a local network, where one connection fills the network.
pub const NEAR: Duration = Duration::from_millis(2);
/// A connection that carries so many bytes in a round trip is limited by its windows, or soon will be.
const FULL: f64 = 1024.0 * 1024.0;
/// Bytes to come for which further logins are worth their time.
const WORTH: u64 = 64 << 20;
/// How long the rate is measured; and no less than two round trips.
pub const CARRIED: Duration = Duration::from_millis(100);

/// What a connection has carried.
#[derive(Debug)]
pub struct LinkSaturation {
    since: Instant,
    answered: u64,
    /// It was full once, or is not measured.
    is_over: bool,
}

impl LinkSaturation {
    pub fn new(is_wanted: bool) -> LinkSaturation {
        LinkSaturation { since: Instant::now(), answered: 0, is_over: !is_wanted }
    }

    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether it is full and much is to come; `true` only once. Of the `opened` bytes of all files so far, `answered` have been
    /// carried.
    pub fn is_reached(&mut self, round_trip: Duration, answered: u64, opened: u64) -> bool {
        let lasted = self.since.elapsed();
        if self.is_over || round_trip < NEAR || lasted < CARRIED.max(round_trip * 2) {
            return false;
        }
        let carried = answered.saturating_sub(std::mem::replace(&mut self.answered, answered));
        self.since = Instant::now();
        self.is_over =
            carried as f64 >= FULL * (lasted.as_secs_f64() / round_trip.as_secs_f64()) && opened.saturating_sub(answered) >= WORTH;
        self.is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(50);

    /// A connection for the last 200 ms, in which four round trips fit.
    fn measured() -> LinkSaturation {
        LinkSaturation {
            since: Instant::now().checked_sub(Duration::from_millis(200)).expect("the machine has run for so long"),
            ..LinkSaturation::new(true)
        }
    }

    #[test]
    fn a_megabyte_in_a_round_trip_is_full_once() {
        let mut fullness = measured();
        assert!(fullness.is_reached(ROUND_TRIP, 400 << 20, 1 << 30));
        fullness.since = measured().since;
        assert!(!fullness.is_reached(ROUND_TRIP, 800 << 20, 2 << 30));
    }

    #[test]
    fn little_data_a_short_way_or_too_short_a_time_is_not() {
        assert!(!measured().is_reached(ROUND_TRIP, 3 << 20, 1 << 30));
        assert!(!measured().is_reached(ROUND_TRIP, 400 << 20, 420 << 20), "little is left");
        assert!(!measured().is_reached(Duration::from_millis(1), 400 << 20, 1 << 30));
        assert!(!LinkSaturation::new(true).is_reached(ROUND_TRIP, 400 << 20, 1 << 30));
        assert!(!LinkSaturation { is_over: true, ..measured() }.is_reached(ROUND_TRIP, 400 << 20, 1 << 30));
    }
}
