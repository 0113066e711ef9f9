//! When the client was heard last: any byte of it is a sign of life, also of a frame that takes minutes over a slow line.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub struct Heard {
    begun: Instant,
    /// Milliseconds since then.
    at: AtomicU64,
}

impl Heard {
    pub fn new() -> Heard {
        Heard { begun: Instant::now(), at: AtomicU64::new(0) }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub fn note(&self) {
        self.at.fetch_max(self.now(), Ordering::Relaxed);
    }

    pub fn silence(&self) -> Duration {
        Duration::from_millis(self.now().saturating_sub(self.at.load(Ordering::Relaxed)))
    }

    pub fn age(&self) -> Duration {
        self.begun.elapsed()
    }
}

/// Notes each time that something comes.
pub struct Noting<R>(pub R, pub Arc<Heard>);

impl<R: Read> Read for Noting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.0.read(buffer)?;
        self.1.note();
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_of_a_frame_is_a_sign_of_life() {
        let heard = Arc::new(Heard::new());
        std::thread::sleep(Duration::from_millis(30));
        assert!(heard.silence() >= Duration::from_millis(30));
        let before = heard.at.load(Ordering::Relaxed);
        Noting(&b"x"[..], heard.clone()).read_exact(&mut [0]).expect("a byte");
        assert!(heard.at.load(Ordering::Relaxed) >= before + 30);
    }
}
