//! An end of a link: a network namespace without a name, and in it a TUN device.

use std::fs::{File, OpenOptions};
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

/// The device's name in both namespaces.
const DEVICE: &str = "tun0";
/// Of 24 bits: both ends are neighbours, everything else has no route.
const NETMASK: Ipv4Addr = Ipv4Addr::new(255, 255, 255, 0);
/// Packets that the device itself holds until they are read. It drops without our counters when they are more, so this is far above what
/// TCP's windows hold; the queue that tests choose is behind it.
const DEVICE_QUEUE: i32 = 20_000;

/// One end of a link: its address, and the way to run something there.
///
/// A clone stays usable when the link is gone; the namespace then has only its loopback device.
#[derive(Debug, Clone)]
pub struct End {
    address: Ipv4Addr,
    namespace: Arc<OwnedFd>,
}

impl End {
    /// The end's address on the link. 127.0.0.1 is another one in each namespace.
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// The namespace, for `setns`.
    fn namespace(&self) -> BorrowedFd<'_> {
        self.namespace.as_fd()
    }

    /// A command that will run in the namespace, with the file systems, users and processes of this one. Spawning it fails with
    /// `PermissionDenied` without root's rights.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        self.enter(&mut command);
        command
    }

    /// Makes a command run in the namespace.
    pub fn enter<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        let namespace = Arc::clone(&self.namespace);
        let enter = move || Ok(move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?);
        // SAFETY: between fork and exec this makes one system call with a descriptor that the closure keeps open, and allocates nothing.
        unsafe { command.pre_exec(enter) }
    }

    /// Runs `work` on a thread in the namespace. A socket belongs for ever to the namespace that it was made in, so a listener or a
    /// connection that `work` returns can be used anywhere.
    ///
    /// Errors: when the thread cannot be made or not enter the namespace. A panic of `work` goes on here.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        on_a_thread(|| {
            move_into_link_name_space(self.namespace(), Some(LinkNameSpaceType::Network))?;
            Ok(work())
        })
    }

    /// The processes whose first thread is in the namespace, apart from this one.
    fn processes(&self) -> io::Result<Vec<u32>> {
        let this = self.identity()?;
        let listed = std::fs::read_dir("/proc")?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        Ok(listed.filter(|pid| *pid != std::process::id() && namespace_of(*pid) == Some(this)).collect())
    }

    /// Device and inode number of the namespace, as `/proc/PID/ns/net` has them.
    fn identity(&self) -> io::Result<(u64, u64)> {
        let status = rustix::fs::fstat(&*self.namespace)?;
        Ok((status.st_dev, status.st_ino))
    }

    /// Kills what runs in the namespace, and waits up to two seconds until it is gone.
    pub(super) fn clear(&self) -> io::Result<()> {
        let this = self.identity()?;
        let until = Instant::now() + Duration::from_secs(2);
        loop {
            let left = self.processes()?;
            for pid in &left {
                kill(*pid, this);
            }
            if left.is_empty() || Instant::now() > until {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Kills a process if it is still one of that namespace: its number may belong to another by now.
fn kill(pid: u32, namespace: (u64, u64)) {
    let Some(process) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
    let Ok(handle) = pidfd_open(process, PidfdFlags::empty()) else { return };
    if namespace_of(pid) == Some(namespace) {
        // It may be gone.
        let _ = pidfd_send_signal(&handle, Signal::KILL);
    }
}

/// Nothing when the process is gone, or dead and not yet waited for.
fn namespace_of(pid: u32) -> Option<(u64, u64)> {
    let metadata = std::fs::metadata(format!("/proc/{pid}/ns/net")).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// A namespace with its loopback device up and a TUN device of this address and MTU, and the device's packets.
pub(super) fn make(address: Ipv4Addr, mtu: u32) -> io::Result<(End, OwnedFd)> {
    on_a_thread(|| {
        // SAFETY: CLONE_NEWNET leaves memory and descriptors shared.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.map_err(|e| explain("a network namespace needs root's rights", e.into()))?;
        let namespace = Arc::new(OwnedFd::from(File::open("/proc/thread-self/ns/net")?));
        quiet()?;
        let device = device(address, mtu)?;
        Ok((End { address, namespace }, device))
    })
}

/// No IPv6 on devices to come: it would send packets of its own, which the counters would show.
fn quiet() -> io::Result<()> {
    match std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1") {
        // There is no IPv6 in this kernel.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.map_err(|e| explain("disable_ipv6", e)),
    }
}

/// Makes the device in the namespace of this thread, and brings it and the loopback device up.
fn device(address: Ipv4Addr, mtu: u32) -> io::Result<OwnedFd> {
    let open = || OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun");
    let file = match open() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => make_device().and_then(|()| open()),
        file => file,
    };
    let tun = file.map_err(|e| explain("/dev/net/tun", e))?;
    let mut request = request(DEVICE);
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as i16;
    ask(&tun, libc::TUNSETIFF, "TUNSETIFF", &mut request)?;
    // Any socket serves to ask for changes of the devices of its namespace.
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    request.ifr_ifru.ifru_mtu = mtu as i32;
    ask(&socket, libc::SIOCSIFMTU, "SIOCSIFMTU", &mut request)?;
    // The union has one name for all plain numbers.
    request.ifr_ifru.ifru_ifindex = DEVICE_QUEUE;
    ask(&socket, libc::SIOCSIFTXQLEN, "SIOCSIFTXQLEN", &mut request)?;
    request.ifr_ifru.ifru_addr = internet(address);
    ask(&socket, libc::SIOCSIFADDR, "SIOCSIFADDR", &mut request)?;
    request.ifr_ifru.ifru_netmask = internet(NETMASK);
    ask(&socket, libc::SIOCSIFNETMASK, "SIOCSIFNETMASK", &mut request)?;
    up(&socket, request)?;
    up(&socket, self::request("lo"))?;
    Ok(tun.into())
}

fn up(socket: &UdpSocket, mut request: libc::ifreq) -> io::Result<()> {
    ask(socket, libc::SIOCGIFFLAGS, "SIOCGIFFLAGS", &mut request)?;
    // SAFETY: SIOCGIFFLAGS has just filled this field of the union.
    unsafe { request.ifr_ifru.ifru_flags |= libc::IFF_UP as i16 };
    ask(socket, libc::SIOCSIFFLAGS, "SIOCSIFFLAGS", &mut request)
}

/// A request on the device of that name, which is shorter than IFNAMSIZ.
fn request(name: &str) -> libc::ifreq {
    // SAFETY: all zeroes is a value of every field.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request
}

fn ask(to: &impl AsRawFd, what: libc::Ioctl, name: &str, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: each of these requests reads and writes one ifreq, which outlives the call.
    match unsafe { libc::ioctl(to.as_raw_fd(), what, std::ptr::from_mut(request)) } {
        -1 => Err(explain(name, io::Error::last_os_error())),
        _ => Ok(()),
    }
}

fn internet(address: Ipv4Addr) -> libc::sockaddr {
    let mut data = [0; 14];
    // Two bytes of port, then the address.
    for (to, from) in data[2..6].iter_mut().zip(address.octets()) {
        *to = from as libc::c_char;
    }
    libc::sockaddr { sa_family: libc::AF_INET as libc::sa_family_t, sa_data: data }
}

/// Runs `work` on a thread of its own, which may change its namespace: it ends with it.
fn on_a_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| match thread::Builder::new().spawn_scoped(scope, work)?.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

fn explain(what: &str, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// Containers often have the driver and not its name: a character device 10:200, as the kernel's devices.txt has it.
fn make_device() -> io::Result<()> {
    std::fs::create_dir_all("/dev/net")?;
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let made =
        rustix::fs::mknodat(rustix::fs::CWD, "/dev/net/tun", rustix::fs::FileType::CharacterDevice, mode, rustix::fs::makedev(10, 200));
    made.map_err(Into::into)
}
