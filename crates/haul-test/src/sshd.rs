//! A real OpenSSH server on loopback, with keys of its own, on a free port.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::port::free_port;

const SERVER: &str = "/usr/sbin/sshd";

/// The server, stopped when this is dropped.
#[derive(Debug)]
pub struct Sshd {
    place: tempfile::TempDir,
    pub port: u16,
    child: Child,
}

impl Sshd {
    /// `lines` go into its configuration in front of all others, where the first value of a word counts. It has the sftp
    /// subsystem unless they name one, and root's home is an empty directory unless they set something in the environment.
    pub fn start(lines: &str) -> io::Result<Sshd> {
        let place = tempfile::Builder::new().prefix("haul-sshd-").tempdir()?;
        // An account that is not root's has its key looked up with its own rights.
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755))?;
        let at = |name: &str| place.path().join(name);
        for key in ["host_key", "user_key"] {
            let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-C", key, "-f"]).arg(at(key)).status()?;
            if !made.success() {
                return Err(io::Error::other("ssh-keygen failed"));
            }
        }
        fs::copy(at("user_key.pub"), at("authorized_keys"))?;
        // The server separates its privileges below this directory.
        fs::create_dir_all("/run/sshd")?;
        let port = free_port()?;
        let show = |name: &str| at(name).display().to_string();
        // A login as root reads no start-up files of this machine's: they may print, take their time or change the PATH.
        fs::create_dir(at("home"))?;
        let home = if lines.contains("SetEnv ") { String::new() } else { format!("Match User root\n  SetEnv HOME={}\n", show("home")) };
        let config = format!(
            "{lines}\nPort {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nUsePAM no\n\
             StrictModes no\nPermitRootLogin yes\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
             MaxStartups 100\nLogLevel VERBOSE\n{}{home}",
            show("host_key"),
            show("authorized_keys"),
            if lines.contains("Subsystem ") { "" } else { "Subsystem sftp /usr/lib/openssh/sftp-server\n" }
        );
        fs::write(at("sshd_config"), config)?;
        let log = fs::File::create(at("log"))?;
        let mut server = Command::new(SERVER);
        server.args(["-D", "-e", "-f"]).arg(at("sshd_config")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let mut child = start_with_us(server).map_err(|e| io::Error::new(e.kind(), format!("{SERVER}: {e}")))?;
        let until = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if let Some(status) = child.try_wait()? {
                return Err(io::Error::other(format!("{SERVER} ended: {status}: {}", fs::read_to_string(at("log")).unwrap_or_default())));
            }
            if Instant::now() > until {
                let _it_may_be_gone = child.kill();
                return Err(io::Error::other("sshd does not listen"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let hosts = fs::read_to_string(at("host_key.pub"))?;
        fs::write(at("known_hosts"), format!("[127.0.0.1]:{port} {hosts}"))?;
        // The client's side: nothing of the user's own configuration.
        let client = format!(
            "Host testhost\n  HostName 127.0.0.1\n  Port {port}\n  User root\nHost *\n  IdentityFile {}\n  IdentitiesOnly yes\n  \
             UserKnownHostsFile {}\n  GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n",
            show("user_key"),
            show("known_hosts")
        );
        fs::write(at("ssh_config"), client)?;
        Ok(Sshd { place, port, child })
    }

    /// For ssh's `-F`. It knows the server as `testhost`.
    pub fn config(&self) -> PathBuf {
        self.path("ssh_config")
    }

    /// A file of the server: `known_hosts`, `authorized_keys`, `user_key`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// How many logins have been accepted.
    pub fn logins(&self) -> usize {
        fs::read_to_string(self.path("log"))
            .unwrap_or_default()
            .lines()
            .filter(|line| line.starts_with("Accepted ") && line.contains(" for "))
            .count()
    }

    /// How many sessions have been opened in them.
    pub fn sessions(&self) -> usize {
        fs::read_to_string(self.path("log")).unwrap_or_default().lines().filter(|line| line.contains("Starting session: ")).count()
    }

    /// Cuts the connections that there are, as a network would; says how many there were.
    pub fn cut(&self) -> usize {
        self.signal(Signal::KILL)
    }

    /// Stops what serves the connections that there are: they stay open and nothing comes from them. Returns how many there are.
    pub fn freeze(&self) -> usize {
        self.signal(Signal::STOP)
    }

    /// Stops the server as well: a connection is taken by the system, and nobody speaks in it.
    pub fn freeze_all(&self) {
        self.freeze();
        send(self.child.id(), Signal::STOP);
    }

    /// What was stopped goes on.
    pub fn thaw(&self) {
        send(self.child.id(), Signal::CONT);
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) -> usize {
        let connections = children(self.child.id());
        for connection in &connections {
            // The process without privileges that serves an account holds the connection too; what was started for it is no
            // concern of the network.
            for below in children(*connection).into_iter().filter(|pid| is_server(*pid)) {
                send(below, signal);
            }
            send(*connection, signal);
        }
        connections.len()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        self.cut();
        let _it_may_be_gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn is_server(process: u32) -> bool {
    fs::read_to_string(format!("/proc/{process}/comm")).is_ok_and(|name| name.starts_with("sshd"))
}

fn send(process: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) {
        let _it_may_be_gone = rustix::process::kill_process(pid, signal);
    }
}

/// The processes that a process has started, by `/proc`.
fn children(parent: u32) -> Vec<u32> {
    let is_child = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // Behind the name in parentheses come the state and the parent.
        let behind = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        behind.split_whitespace().nth(1).and_then(|n| n.parse().ok()) == Some(parent)
    };
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_child).collect()
}

/// Starts a server that ends with this process, also where nothing drops it. The system counts the end of the thread that
/// started it, so that is one that ends with the process.
pub(crate) fn start_with_us(mut command: Command) -> io::Result<Child> {
    let go_along = || rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM)).map_err(io::Error::from);
    // SAFETY: the closure makes one system call between fork and exec.
    unsafe { std::os::unix::process::CommandExt::pre_exec(&mut command, go_along) };
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _nobody_waits = send.send(command.spawn());
        loop {
            std::thread::park();
        }
    });
    receive.recv().unwrap_or_else(|_| Err(io::Error::other("the thread that starts it ended")))
}
