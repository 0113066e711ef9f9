//! A network link with a delay, a rate and loss, between two network namespaces, for programs that are tested as they are.
//!
//! Each end is a network namespace without a name, with a TUN device and a loopback device. A program of one end reaches the other end's
//! address ([`NEAR`], [`FAR`]; the same on every link, for links do not see each other) and nothing else: there is no route to anywhere.
//! IPv6 is off on the link. Between the devices one thread for each direction carries IP packets:
//!
//! 1. The dice take a share of them ([`Options::loss`]): which ones, follows from the seed and their number alone.
//! 2. A queue of bounded size waits for a transmitter of the given rate. What finds it full is dropped ([`Options::queue`]).
//! 3. Behind the transmitter every packet is [`Options::delay`] on its way. The order never changes.
//!
//! Bytes are those of IP packets, headers included. The rate is never exceeded; time in which nothing is sent is not saved up. A packet is
//! never early. It is late by what the machine's timers are late (some 10 us, in a virtual machine some 100 us), and while others follow it
//! by up to 100 us more. A TCP acknowledgement goes through the other direction, so a round trip takes twice the delay. The threads sleep
//! while nothing is to be done, and run in front of ordinary processes when something is, so that a busy machine does not become a slow link.
//!
//! A [`Link`] that is dropped, by a panic too, kills the processes that still run in its namespaces and takes its devices and threads
//! away; the namespaces end with the last handle ([`End`], or a command made by it). When the process is killed the kernel does the same
//! for devices and threads, and programs that live on stand in a namespace without a way out.
//!
//! How much TCP has under way is bounded by the namespace's own `/proc/sys/net/ipv4/tcp_rmem` and `tcp_wmem`, which start as those of
//! the machine and which a command at that end may write; so is `tcp_congestion_control`. 1 Gbit/s with a round trip of 50 ms are 6.25 MB
//! under way. The kernel's usual largest send buffer of 4 MiB holds less than half of that, bookkeeping included: one connection gets
//! about 54 MB/s, as between untuned hosts, and several together, or one with a larger `tcp_wmem`, fill the link.

mod forward;
mod namespace;
mod pipe;

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

pub use namespace::End;

use forward::{Counters, Forward, Stop};
use pipe::Pipe;

/// The near end's address on every link.
pub const NEAR: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
/// The far end's address on every link.
pub const FAR: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 2);

/// What a direction is like.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Of each packet, one way. At most an hour; default none.
    pub delay: Duration,
    /// Bytes of IP packets a second, at least 1. Default `None`: as fast as the machine goes.
    pub rate: Option<u64>,
    /// Share of packets that are lost, 0.0 (default) to 1.0.
    pub loss: f64,
    /// Bytes that wait in front of a transmitter with a rate, the packet that is being sent included. Default `None`: what the rate
    /// carries in a round trip of this delay, at least 64 packets of the largest size.
    pub queue: Option<u64>,
    /// Largest packet that the device of the sending end makes, in bytes, 576 to 65,535. Default 9000. Small ones cost the machine more.
    pub mtu: u32,
    /// Of the packets that are lost. Default 0.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options { delay: Duration::ZERO, rate: None, loss: 0.0, queue: None, mtu: 9000, seed: 0 }
    }
}

impl Options {
    /// The queue in bytes, with its default worked out.
    fn queue_bytes(&self) -> u64 {
        let round_trip = (2 * self.delay.as_nanos() * u128::from(self.rate.unwrap_or(0)) / 1_000_000_000) as u64;
        self.queue.unwrap_or(round_trip.max(64 * u64::from(self.mtu)))
    }

    fn check(&self) -> io::Result<()> {
        let wrong = match self {
            Options { loss, .. } if !(0.0..=1.0).contains(loss) => "a loss is a share from 0.0 to 1.0",
            Options { rate: Some(0), .. } => "a rate is at least a byte a second",
            Options { mtu, .. } if !(576..=65_535).contains(mtu) => "an MTU is from 576 to 65535 bytes",
            Options { delay, .. } if *delay > Duration::from_secs(3600) => "a delay is an hour at most",
            _ => return Ok(()),
        };
        Err(io::Error::new(io::ErrorKind::InvalidInput, wrong))
    }
}

/// What has passed in one direction so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Packets that came out.
    pub packets: u64,
    /// Their bytes, IP headers included.
    pub bytes: u64,
    /// Packets that the dice took.
    pub lost: u64,
    /// Packets that the queue had no room for, or that the other end's device did not take.
    pub overflowed: u64,
}

/// One direction of a link in operation.
#[derive(Debug, Default)]
struct Lane {
    counters: Arc<Counters>,
    thread: Option<JoinHandle<()>>,
}

/// Two namespaces and what carries packets between them, until it is dropped.
#[derive(Debug)]
pub struct Link {
    near: End,
    far: End,
    forth: Lane,
    back: Lane,
    stop: Arc<Stop>,
}

impl Link {
    /// A link that is the same in both directions, apart from the packets that are lost.
    ///
    /// Errors: `InvalidInput` for options out of their bounds, `PermissionDenied` without root's rights, `NotFound` without `/dev/net/tun`.
    pub fn new(options: Options) -> io::Result<Link> {
        Link::uneven(options.clone(), options)
    }

    /// A link with options of its own for the way from near to far (`forth`) and from far to near (`back`). Errors as those of [`Link::new`].
    pub fn uneven(forth: Options, back: Options) -> io::Result<Link> {
        forth.check()?;
        back.check()?;
        let stop = Arc::new(Stop::new()?);
        let (near, near_device) = namespace::make(NEAR, forth.mtu)?;
        let (far, far_device) = namespace::make(FAR, back.mtu)?;
        let (near_device, far_device) = (Arc::new(near_device), Arc::new(far_device));
        // The link exists before its second thread, so that a failure to start that one takes everything away.
        let mut link = Link { near, far, forth: Lane::default(), back: Lane::default(), stop };
        link.forth.start(&forth, 0, [&near_device, &far_device], &link.stop)?;
        link.back.start(&back, 1, [&far_device, &near_device], &link.stop)?;
        Ok(link)
    }

    pub fn near(&self) -> &End {
        &self.near
    }

    pub fn far(&self) -> &End {
        &self.far
    }

    /// What has come from near to far.
    pub fn forth(&self) -> Traffic {
        self.forth.counters.read()
    }

    /// What has come from far to near.
    pub fn back(&self) -> Traffic {
        self.back.counters.read()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        for end in [&self.near, &self.far] {
            // Without /proc there is nothing to find them by.
            // Those that cannot be ended live on in a namespace without a way out.
            let _ = end.clear();
        }
        self.stop.now();
        for lane in [&mut self.forth, &mut self.back] {
            if let Some(thread) = lane.thread.take() {
                // Its devices are closed even when it has panicked.
                let _ = thread.join();
            }
        }
    }
}

impl Lane {
    fn start(&mut self, options: &Options, number: u64, [from, to]: [&Arc<OwnedFd>; 2], stop: &Arc<Stop>) -> io::Result<()> {
        let forward = Forward {
            from: Arc::clone(from),
            to: Arc::clone(to),
            pipe: Pipe::new(options, number),
            mtu: options.mtu,
            counters: Arc::clone(&self.counters),
            stop: Arc::clone(stop),
        };
        let name = if number == 0 { "link-forth" } else { "link-back" };
        self.thread = Some(std::thread::Builder::new().name(name.into()).spawn(move || forward.run())?);
        Ok(())
    }
}
