//! What a direction of a link does to a packet: a decision per packet, with time as an argument.

use std::time::{Duration, Instant};

use super::Options;
use crate::content::Random;

/// Packets between their arrival and their release take no more memory than this many bytes, whatever the options say.
/// It is four times what 10 Gbit/s with 100 ms hold, and what a sender that floods an unlimited link with a delay is held to.
const MOST_IN_FLIGHT: u64 = 512 << 20;

/// Loss is drawn with this many bits.
const LOSS_STEPS: u64 = 1 << 53;

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It comes out at this time.
    Release(Instant),
    /// The dice took it.
    Lost,
    /// The queue had no room for it.
    Overflowed,
}

/// One direction: a queue in front of a transmitter, and a way of fixed length behind it.
///
/// The transmitter sends one packet after another, each for size / rate; a packet enters the way when its last byte is sent. So the bytes
/// that came out between two moments are never more than rate x time, plus one packet that was under way at the first.
#[derive(Debug)]
pub(super) struct Pipe {
    delay: Duration,
    rate: Option<u64>,
    queue: u64,
    /// When the transmitter has sent all that it was given.
    free: Option<Instant>,
    /// Steps of `LOSS_STEPS` at which a packet is lost.
    loss: u64,
    dice: Random,
}

impl Pipe {
    /// `lane` keeps the two directions of one seed apart.
    pub(super) fn new(options: &Options, lane: u64) -> Pipe {
        Pipe {
            delay: options.delay,
            rate: options.rate,
            queue: options.queue_bytes(),
            free: None,
            loss: (options.loss * LOSS_STEPS as f64) as u64,
            dice: Random::new(options.seed.wrapping_mul(2).wrapping_add(lane)),
        }
    }

    /// Decides on a packet of `size` bytes that arrives at `now`, while `in_flight` bytes are on their way. `now` never goes back.
    ///
    /// The n-th packet of a direction is lost or not by the seed alone. A lost packet takes no time of the transmitter. A packet that
    /// finds the queue empty always has room.
    pub(super) fn pass(&mut self, now: Instant, size: usize, in_flight: u64) -> Fate {
        if self.dice.below(LOSS_STEPS) < self.loss {
            return Fate::Lost;
        }
        let size = size as u64;
        if in_flight + size > MOST_IN_FLIGHT {
            return Fate::Overflowed;
        }
        let Some(rate) = self.rate else { return Fate::Release(now + self.delay) };
        let start = self.free.map_or(now, |free| free.max(now));
        let waiting = (start - now).as_nanos() * u128::from(rate) / 1_000_000_000;
        if waiting > 0 && waiting + u128::from(size) > u128::from(self.queue) {
            return Fate::Overflowed;
        }
        // Rounded up, so that the rate is never exceeded.
        let sent = start + Duration::from_nanos((size * 1_000_000_000).div_ceil(rate));
        self.free = Some(sent);
        Fate::Release(sent + self.delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn pipe(rate: Option<u64>, queue: u64, delay: Duration) -> Pipe {
        Pipe::new(&Options { rate, queue: Some(queue), delay, ..Options::default() }, 0)
    }

    #[test]
    fn without_a_rate_only_the_delay_counts() {
        let start = Instant::now();
        let mut pipe = pipe(None, 0, 7 * MS);
        for n in 0..100 {
            assert_eq!(pipe.pass(start + n * MS, 9000, 0), Fate::Release(start + (n + 7) * MS));
        }
    }

    #[test]
    fn packets_follow_each_other_at_the_rate_and_the_tail_is_dropped() {
        let start = Instant::now();
        // A packet of 1,000 bytes takes a millisecond; three of them may wait or be sent.
        let mut pipe = pipe(Some(1_000_000), 3000, 10 * MS);
        for n in 1..=3 {
            assert_eq!(pipe.pass(start, 1000, 0), Fate::Release(start + (n + 10) * MS));
        }
        assert_eq!(pipe.pass(start, 1000, 0), Fate::Overflowed);
        // One has been sent since.
        assert_eq!(pipe.pass(start + MS, 1000, 0), Fate::Release(start + 14 * MS));
        assert_eq!(pipe.pass(start + MS, 1000, 0), Fate::Overflowed);
        // Time without packets is not saved up.
        assert_eq!(pipe.pass(start + 100 * MS, 1000, 0), Fate::Release(start + 111 * MS));
    }

    #[test]
    fn an_empty_queue_takes_any_packet_until_too_much_is_in_flight() {
        let start = Instant::now();
        let mut pipe = pipe(Some(1_000_000), 1, MS);
        assert_eq!(pipe.pass(start, 9000, MOST_IN_FLIGHT), Fate::Overflowed);
        assert_eq!(pipe.pass(start, 2000, 0), Fate::Release(start + 3 * MS));
        assert_eq!(pipe.pass(start, 1, 0), Fate::Overflowed);
    }

    #[test]
    fn loss_follows_the_seed_and_the_share() {
        let start = Instant::now();
        let lost = |seed: u64, lane: u64, share: f64| -> Vec<u32> {
            let mut pipe = Pipe::new(&Options { seed, loss: share, ..Options::default() }, lane);
            (0..10_000).filter(|_| pipe.pass(start, 100, 0) == Fate::Lost).collect()
        };
        assert_eq!(lost(1, 0, 0.1), lost(1, 0, 0.1));
        assert_ne!(lost(1, 0, 0.1), lost(2, 0, 0.1));
        assert_ne!(lost(1, 0, 0.1), lost(1, 1, 0.1));
        assert!((800..1200).contains(&lost(1, 0, 0.1).len()), "{}", lost(1, 0, 0.1).len());
        assert_eq!(lost(1, 0, 0.0).len(), 0);
        assert_eq!(lost(1, 0, 1.0).len(), 10_000);
        // More loss takes the same packets and others.
        let more = lost(1, 0, 0.2);
        assert!(lost(1, 0, 0.1).iter().all(|packet| more.contains(packet)));
    }
}
