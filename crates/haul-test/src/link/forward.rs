//! The thread that carries the packets of one direction.

use std::collections::VecDeque;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::Traffic;
use super::pipe::{Fate, Pipe};

/// Packets read before those that are due are looked at again.
const BATCH: usize = 16;
/// While packets are in flight, the thread lets arrivals gather for this long: half as much work for the machine at 1 Gbit/s, and far
/// below what a delay is chosen for. A packet that comes alone is released on time.
const GATHER: Duration = Duration::from_micros(100);
/// Buffers kept for packets to come.
const MOST_SPARE: usize = 1024;

/// What has happened in one direction.
#[derive(Debug, Default)]
pub(super) struct Counters {
    packets: AtomicU64,
    bytes: AtomicU64,
    lost: AtomicU64,
    overflowed: AtomicU64,
}

impl Counters {
    pub(super) fn read(&self) -> Traffic {
        Traffic {
            packets: self.packets.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
            overflowed: self.overflowed.load(Ordering::Relaxed),
        }
    }
}

/// What tells both threads to end: the flag while packets pass, the event while none do.
#[derive(Debug)]
pub(super) struct Stop {
    flag: AtomicBool,
    event: OwnedFd,
}

impl Stop {
    pub(super) fn new() -> io::Result<Stop> {
        let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC)?;
        Ok(Stop { flag: AtomicBool::new(false), event })
    }

    pub(super) fn now(&self) {
        self.flag.store(true, Ordering::Relaxed);
        // It is written once and never full.
        // The thread sees it, or is gone.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }
}

/// One direction.
pub(super) struct Forward {
    pub(super) from: Arc<OwnedFd>,
    pub(super) to: Arc<OwnedFd>,
    pub(super) pipe: Pipe,
    pub(super) mtu: u32,
    pub(super) counters: Arc<Counters>,
    pub(super) stop: Arc<Stop>,
}

/// Packets in flight, in the order in which they are released: the delay is the same for all.
#[derive(Default)]
struct InFlight {
    packets: VecDeque<(Instant, Vec<u8>)>,
    bytes: u64,
    spare: Vec<Vec<u8>>,
}

impl Forward {
    /// Carries packets until it is stopped or a device is gone. It waits in ppoll, without spinning.
    pub(super) fn run(mut self) {
        hurry();
        let mut in_flight = InFlight::default();
        let mut buffer = vec![0; self.mtu as usize];
        while !self.stop.flag.load(Ordering::Relaxed) {
            self.release(&mut in_flight);
            match self.take(&mut in_flight, &mut buffer) {
                Ok(BATCH) => {}
                Ok(taken) => {
                    let wait = in_flight.packets.front().map(|(when, _)| when.saturating_duration_since(Instant::now()));
                    let slept = match wait {
                        Some(_) if taken > 0 => self.sleep(&[&self.stop.event], Some(GATHER)),
                        _ => self.sleep(&[&self.stop.event, &self.from], wait),
                    };
                    if slept.is_err() {
                        return;
                    }
                }
                Err(_) => return,
            }
        }
    }

    /// Hands over the packets that are due.
    fn release(&self, in_flight: &mut InFlight) {
        if in_flight.packets.is_empty() {
            return;
        }
        let now = Instant::now();
        while let Some((_, packet)) = in_flight.packets.pop_front_if(|(when, _)| *when <= now) {
            in_flight.bytes -= packet.len() as u64;
            self.hand(&packet);
            if in_flight.spare.len() < MOST_SPARE {
                in_flight.spare.push(packet);
            }
        }
    }

    fn hand(&self, packet: &[u8]) {
        match rustix::io::write(&*self.to, packet) {
            Ok(_) => {
                self.counters.packets.fetch_add(1, Ordering::Relaxed);
                self.counters.bytes.fetch_add(packet.len() as u64, Ordering::Relaxed);
            }
            // The receiver has set its device down, or there is no memory: the packet is lost as on any network.
            Err(_) => {
                self.counters.overflowed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Takes packets until none wait or there are `BATCH`, and says how many.
    fn take(&mut self, in_flight: &mut InFlight, buffer: &mut [u8]) -> Result<usize, Errno> {
        for taken in 0..BATCH {
            let size = match rustix::io::read(&*self.from, &mut *buffer) {
                Ok(size) => size,
                Err(Errno::AGAIN) => return Ok(taken),
                Err(error) => return Err(error),
            };
            let now = Instant::now();
            match self.pipe.pass(now, size, in_flight.bytes) {
                Fate::Release(when) if when <= now && in_flight.packets.is_empty() => self.hand(&buffer[..size]),
                Fate::Release(when) => {
                    let mut packet = in_flight.spare.pop().unwrap_or_default();
                    packet.clear();
                    packet.extend_from_slice(&buffer[..size]);
                    in_flight.bytes += size as u64;
                    in_flight.packets.push_back((when, packet));
                }
                Fate::Lost => drop(self.counters.lost.fetch_add(1, Ordering::Relaxed)),
                Fate::Overflowed => drop(self.counters.overflowed.fetch_add(1, Ordering::Relaxed)),
            }
        }
        Ok(BATCH)
    }

    /// Sleeps until one of these is readable or the time is over.
    fn sleep(&self, watched: &[&OwnedFd], wait: Option<Duration>) -> Result<(), Errno> {
        let timeout = wait.map(|wait| Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) });
        let mut watched: Vec<PollFd<'_>> = watched.iter().map(|one| PollFd::new(*one, PollFlags::IN)).collect();
        match poll(&mut watched, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Makes this thread wake up on time: the kernel lets others wait 50 us longer than they asked, and behind whatever is running.
/// Without the right to do so packets are later on a busy machine, and nothing else: errors do not matter.
fn hurry() {
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: this reads one sched_param; 0 is the calling thread.
    let _ = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
}
