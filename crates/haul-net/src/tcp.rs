//! TCP connections over long networks: their buffers, their losses, and what the kernel counts of them.

use std::net::TcpStream;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType, sockopt};

/// A network with this round trip is long.
const LONG: Duration = Duration::from_millis(2);
/// Bytes that are asked for, of which the kernel takes twice as many, for what it needs beside the data: 1 Gbit/s over 130 ms.
const SEND_BUFFER: usize = 16 << 20;
/// The kernel's own maximum, where it does not tell it.
const GROWN: usize = 4 << 20;

/// Losses of one segment of so many are not those of a full queue alone.
const LOSS: u64 = 3000;
/// And so many, at least.
const LOST: u64 = 10;
/// Each connection first finds its rate: losses in that time mean nothing.
pub const FINDING: Duration = Duration::from_secs(1);
/// How long losses are counted before they are judged.
const WATCHED: Duration = Duration::from_millis(500);

/// Gives a connection over a long network the largest send buffer that the system allows, where the kernel would not let it grow so
/// far: what was sent stays there for a round trip, so that its size over that time is the most that one connection carries.
pub fn widen(stream: &TcpStream) {
    if !tcp_info(stream).is_some_and(|info| is_long(info.tcpi_rtt)) {
        return;
    }
    if let Some(bytes) = send_buffer(*GRANTED.get_or_init(granted), grown()) {
        // It only makes it faster.
        let _ = sockopt::set_socket_send_buffer_size(stream, bytes);
    }
}

/// Whether a connection has a larger send buffer than the kernel would have let it grow to.
pub fn is_wide(stream: &TcpStream) -> bool {
    sockopt::socket_send_buffer_size(stream).is_ok_and(|bytes| bytes > grown())
}

static GRANTED: OnceLock<usize> = OnceLock::new();

fn is_long(microseconds: u32) -> bool {
    Duration::from_micros(microseconds.into()) >= LONG
}

/// The size to ask for, given what would be granted and how far the kernel lets buffers grow: nothing if that is as much, as a buffer
/// that was set does not grow any more.
fn send_buffer(granted: usize, grown: usize) -> Option<usize> {
    (granted > grown).then_some(SEND_BUFFER)
}

/// The send buffer that this system grants, in the kernel's measure: twice the bytes.
fn granted() -> usize {
    let Ok(socket) = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None) else { return 0 };
    let _ = sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER);
    sockopt::socket_send_buffer_size(&socket).unwrap_or(0)
}

/// How far the kernel lets a send buffer grow by itself, in the same measure.
fn grown() -> usize {
    let sizes = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_wmem").unwrap_or_default();
    sizes.split_whitespace().nth(2).and_then(|most| most.parse().ok()).unwrap_or(GROWN)
}

pub fn tcp_info(stream: &TcpStream) -> Option<libc::tcp_info> {
    // SAFETY: tcp_info is plain numbers, for which zero is a value.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `info`.
    let done = unsafe {
        let fd = std::os::fd::AsRawFd::as_raw_fd(stream);
        libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, (&raw mut info).cast(), &raw mut length)
    };
    (done == 0).then_some(info)
}

/// BBR measures the network instead of treating each loss as a full queue. `false` where the system does not allow it.
pub fn tolerate_losses(stream: &TcpStream) -> bool {
    sockopt::set_tcp_congestion(stream, "bbr").is_ok()
}

/// The kernel's counters of connections (tcp_info of linux/tcp.h), summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    /// Segments that were sent, and those of them that were sent again.
    pub sent: u64,
    pub again: u64,
    /// Microseconds with something to send, and those of them in which a buffer at one of the ends was the limit.
    pub busy: u64,
    pub limited: u64,
}

impl Kernel {
    pub fn of<'a>(streams: impl Iterator<Item = &'a TcpStream>) -> Kernel {
        let mut sum = Kernel::default();
        for stream in streams {
            if let Some(info) = tcp_info(stream) {
                sum.sent += u64::from(info.tcpi_segs_out);
                sum.again += u64::from(info.tcpi_total_retrans);
                sum.busy += info.tcpi_busy_time;
                sum.limited += info.tcpi_sndbuf_limited + info.tcpi_rwnd_limited;
            }
        }
        sum
    }

    /// The counts since an earlier state.
    #[must_use]
    pub fn since(self, before: Kernel) -> Kernel {
        self.zip(before, u64::saturating_sub)
    }

    #[must_use]
    pub fn with(self, other: Kernel) -> Kernel {
        self.zip(other, |one, other| one + other)
    }

    /// The network loses segments, as it seems not only because a queue is full.
    pub fn is_lossy(self) -> bool {
        self.again > LOST && self.again * LOSS > self.sent
    }

    fn zip(self, other: Kernel, f: impl Fn(u64, u64) -> u64) -> Kernel {
        Kernel {
            sent: f(self.sent, other.sent),
            again: f(self.again, other.again),
            busy: f(self.busy, other.busy),
            limited: f(self.limited, other.limited),
        }
    }
}

/// Watches one connection that is written to, and has it tolerate losses once there are some.
#[derive(Debug, Default)]
pub struct LossWatch {
    begun: Option<Instant>,
    seen: Option<(Instant, Kernel)>,
    settled: bool,
}

impl LossWatch {
    /// To be called now and then between writes.
    pub fn look(&mut self, stream: &TcpStream) {
        if self.settled || self.begun.get_or_insert_with(Instant::now).elapsed() < FINDING {
            return;
        }
        if self.seen.is_some_and(|(since, _)| since.elapsed() < WATCHED) {
            return;
        }
        let kernel = Kernel::of(std::iter::once(stream));
        if let Some((_, before)) = self.seen.replace((Instant::now(), kernel))
            && kernel.since(before).is_lossy()
        {
            self.settled = true;
            // Where it is not allowed the connection stays as it is.
            let _ = tolerate_losses(stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_set_only_where_it_is_larger_than_the_kernels_own() {
        // The kernel's defaults: 212,992 bytes can be set, 4 MiB are grown to.
        assert_eq!(send_buffer(425_984, 4 << 20), None);
        assert_eq!(send_buffer(4 << 20, 4 << 20), None);
        assert_eq!(send_buffer(8 << 20, 4 << 20), Some(SEND_BUFFER));
        assert!(is_long(2_000) && is_long(50_000) && !is_long(1_999) && !is_long(0));
        assert!(granted() > 0 && grown() > 0);
    }

    #[test]
    fn losses_count_from_a_share_on() {
        let kernel = |sent, again| Kernel { sent, again, ..Kernel::default() };
        assert!(kernel(30_000, 11).is_lossy() && kernel(1000, 11).is_lossy());
        assert!(!kernel(30_000, 10).is_lossy() && !kernel(33_000, 11).is_lossy());
        assert_eq!(kernel(5, 3).since(kernel(2, 1)), kernel(3, 2));
    }
}
