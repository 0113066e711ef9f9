//! A real OpenSSH server on loopback, with keys of its own, on a free port.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal};

use crate::objects::Running;

/// Where a system has its programs, in the order of a PATH.
const PROGRAMS: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// The server, stopped when this is dropped.
#[derive(Debug)]
pub struct Sshd {
    running: Running,
    pub port: u16,
}

impl Sshd {
    /// `lines` go into its configuration in front of all others, where the first value of a word counts. It has the sftp
    /// subsystem unless they name one, and root's home is an empty directory unless they set something in the environment.
    pub fn start(lines: &str) -> io::Result<Sshd> {
        let (running, port) = Running::listening("sshd", |place, port| {
            let at = |name: &str| place.join(name);
            for key in ["host_key", "user_key"] {
                keygen(&["-t", "ed25519"], &at(key))?;
            }
            fs::copy(at("user_key.pub"), at("authorized_keys"))?;
            client_files(place, port, "root")?;
            // The server separates its privileges below this directory.
            fs::create_dir_all("/run/sshd")?;
            let show = |name: &str| at(name).display().to_string();
            // A login as root reads no start-up files of this machine's: they may print, take their time or change the PATH. And no
            // session finds a haul that is installed on this machine. Only the first SetEnv counts: what goes into it goes together.
            fs::create_dir(at("home"))?;
            let path = format!("PATH={}", path_without_haul(&PROGRAMS.map(PathBuf::from), &at("tools"))?);
            let (lines, home) = match lines.split_once("SetEnv ") {
                Some((before, behind)) => {
                    // A PATH that is set there comes first, and counts.
                    let (own, rest) = behind.split_once('\n').unwrap_or((behind, ""));
                    (format!("{before}SetEnv {own} {path}\n{rest}"), String::new())
                }
                None => (format!("{lines}\nSetEnv {path}"), format!("Match User root\n  SetEnv {path} HOME={}\n", show("home"))),
            };
            let config = format!(
                "{lines}\nPort {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nUsePAM no\n\
                 StrictModes no\nPermitRootLogin yes\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
                 LogLevel VERBOSE\n{}{}{home}",
                show("host_key"),
                show("authorized_keys"),
                // Of this word the last value counts.
                if lines.contains("MaxStartups ") { "" } else { "MaxStartups 100\n" },
                if lines.contains("Subsystem ") { "" } else { "Subsystem sftp /usr/lib/openssh/sftp-server\n" }
            );
            fs::write(at("sshd_config"), config)?;
            let mut server = Command::new("/usr/sbin/sshd");
            server.args(["-D", "-e", "-f"]).arg(at("sshd_config"));
            Ok(server)
        })?;
        Ok(Sshd { running, port })
    }

    #[track_caller]
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    #[track_caller]
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).unwrap_or_else(|e| panic!("{name}: {e}"));
    }

    /// Has clients reach it at another address of this machine or of its network namespace.
    #[track_caller]
    pub fn move_to(&self, address: &str) {
        for name in ["ssh_config", "known_hosts"] {
            self.write(name, self.read(name).replace("127.0.0.1", address));
        }
    }

    /// For ssh's `-F`. It knows the server as `testhost`.
    pub fn config(&self) -> PathBuf {
        self.path("ssh_config")
    }

    /// A file of the server: `known_hosts`, `authorized_keys`, `user_key`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.running.place.path().join(name)
    }

    /// How many logins have been accepted.
    pub fn logins(&self) -> usize {
        self.log().lines().filter(|line| line.starts_with("Accepted ") && line.contains(" for ")).count()
    }

    /// How many sessions have been opened in them.
    pub fn sessions(&self) -> usize {
        self.log().lines().filter(|line| line.contains("Starting session: ")).count()
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
        send(self.running.id(), Signal::STOP);
    }

    /// What was stopped goes on.
    pub fn thaw(&self) {
        send(self.running.id(), Signal::CONT);
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) -> usize {
        let connections = children(self.running.id());
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
        if std::thread::panicking() {
            eprintln!("--- sshd\n{}", self.log());
        }
        // They are groups of their own.
        self.cut();
    }
}

/// Makes a key without a passphrase.
pub(crate) fn keygen(kind: &[&str], key: &Path) -> io::Result<()> {
    run(Command::new("ssh-keygen").arg("-q").args(kind).args(["-N", "", "-C", "haul-test", "-f"]).arg(key)).map(drop)
}

/// Runs a command to its end; what it wrote, or what it complained of.
pub(crate) fn run(command: &mut Command) -> io::Result<Vec<u8>> {
    let made = command.stdin(Stdio::null()).output()?;
    if made.status.success() { Ok(made.stdout) } else { Err(io::Error::other(String::from_utf8_lossy(&made.stderr).into_owned())) }
}

/// Writes `known_hosts` and an `ssh_config` that knows the server with `host_key.pub` as `testhost` and nothing of the user's own.
pub(crate) fn client_files(place: &Path, port: u16, user: &str) -> io::Result<()> {
    let at = |name: &str| place.join(name);
    fs::write(at("known_hosts"), format!("[127.0.0.1]:{port} {}", fs::read_to_string(at("host_key.pub"))?))?;
    let client = format!(
        "Host testhost\n  HostName 127.0.0.1\n  Port {port}\n  User {user}\nHost *\n  IdentityFile {}\n  IdentitiesOnly yes\n  \
         UserKnownHostsFile {}\n  GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n",
        at("user_key").display(),
        at("known_hosts").display()
    );
    fs::write(at("ssh_config"), client)
}

/// Where the system's programs are, without any haul among them: where one is, `tools` is made of links to all others.
fn path_without_haul(places: &[PathBuf], tools: &Path) -> io::Result<String> {
    if !places.iter().any(|place| place.join("haul").exists()) {
        return Ok(places.iter().map(|place| place.display().to_string()).collect::<Vec<_>>().join(":"));
    }
    fs::create_dir(tools)?;
    for place in places {
        for program in fs::read_dir(place)? {
            let program = program?;
            if program.file_name() != "haul" {
                match std::os::unix::fs::symlink(program.path(), tools.join(program.file_name())) {
                    Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
                    _ => {}
                }
            }
        }
    }
    Ok(tools.display().to_string())
}

fn is_server(process: u32) -> bool {
    fs::read_to_string(format!("/proc/{process}/comm")).is_ok_and(|name| name.starts_with("sshd"))
}

fn send(process: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) {
        // It may be gone.
        let _ = rustix::process::kill_process(pid, signal);
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
/// started it, so that is one that ends with the process. It is killed, because one that may tidy up signals its children by
/// numbers that may be another process's by now; and it has a group of its own, so that signals to its group are not to the tests.
pub(crate) fn start_with_us(mut command: Command) -> io::Result<Child> {
    let go_along = || rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).map_err(io::Error::from);
    // SAFETY: the closure makes one system call between fork and exec.
    unsafe { std::os::unix::process::CommandExt::pre_exec(&mut command, go_along) };
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        // Nobody may wait for it.
        let _ = send.send(command.spawn());
        loop {
            std::thread::park();
        }
    });
    receive.recv().unwrap_or_else(|_| Err(io::Error::other("the thread that starts it ended")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installed_haul_is_not_in_the_path() {
        let place = tempfile::tempdir().expect("a place");
        let (one, two, tools) = (place.path().join("one"), place.path().join("two"), place.path().join("tools"));
        for (dir, names) in [(&one, vec!["sh", "tar"]), (&two, vec!["sh", "haul", "cp"])] {
            fs::create_dir(dir).expect("made");
            names.iter().for_each(|name| fs::write(dir.join(name), dir.display().to_string()).expect("written"));
        }
        let plain = path_without_haul(std::slice::from_ref(&one), &tools).expect("a PATH");
        assert!(plain == one.display().to_string() && !tools.exists(), "{plain}");
        assert_eq!(path_without_haul(&[one.clone(), two], &tools).expect("a PATH"), tools.display().to_string());
        let mut names: Vec<_> = fs::read_dir(&tools).expect("made").map(|e| e.expect("a name").file_name()).collect();
        names.sort();
        assert_eq!(names, ["cp", "sh", "tar"]);
        assert_eq!(fs::read_to_string(tools.join("sh")).expect("the first counts"), one.display().to_string());
    }
}
