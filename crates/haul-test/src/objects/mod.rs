//! Object stores: real servers that nobody here wrote, each on a port of its own at loopback with a directory of its own, and a
//! server between that does what real ones do not do on demand.
//!
//! - [`real`] starts MinIO, versitygw, moto, rclone or SeaweedFS and stops it again.
//! - [`plain`] makes signed requests, with code that haul does not share.
//! - [`scripted`] answers chosen requests as a test says, and passes all others to the server behind it.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

use haul_net::http_client::Environment;
use haul_s3::account::AccountOptions;
use haul_s3::{Bucket, Client, PutOptions};
use rustix::fs::{XattrFlags, removexattr, setxattr};
use rustix::process::{Pid, Signal};

use crate::port::free_port;

pub mod certificate;
mod http;
pub mod plain;
pub mod real;
pub mod scripted;

pub use real::ObjectServer;
pub use scripted::Scripted;

/// A first start on a busy machine takes seconds.
const LONGEST_START: Duration = Duration::from_secs(60);
const ACCESS: &str = "test-access-key";
const SECRET: &str = "test-secret-key-of-forty-characters-0000";
const REGION: &str = "us-east-1";

/// What a client needs to know about a server.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Scheme, address and port, without a slash at the end: buckets are named in the path.
    pub url: String,
    pub access: String,
    pub secret: String,
    pub region: String,
}

impl Endpoint {
    pub(crate) fn at(scheme: &str, port: u16) -> Endpoint {
        Endpoint { url: format!("{scheme}://127.0.0.1:{port}"), access: ACCESS.into(), secret: SECRET.into(), region: REGION.into() }
    }

    /// Where it listens.
    ///
    /// # Panics
    /// When the URL is not one of an address and a port.
    pub fn address(&self) -> SocketAddr {
        let (_, authority) = self.url.split_once("://").expect("a URL has a scheme");
        authority.parse().expect("it names an address and a port")
    }

    /// How haul's own code opens it.
    fn account_options(&self) -> AccountOptions {
        let keys = [("AWS_ACCESS_KEY_ID", &*self.access), ("AWS_SECRET_ACCESS_KEY", &*self.secret)];
        let environment = Environment::table(None, keys);
        AccountOptions { endpoint_url: Some(self.url.clone()), environment, ..AccountOptions::default() }
    }

    /// A bucket as haul's own code sees it.
    ///
    /// # Panics
    /// When the settings make no sense.
    pub fn bucket(&self, name: &str, options: PutOptions) -> Bucket {
        let client = Client::open(&self.account_options()).expect("settings that make sense");
        Bucket { client: Arc::new(client), name: name.into(), options: Arc::new(options) }
    }

    /// `HOST:PORT`, as it stands in a request's Host.
    pub fn host(&self) -> &str {
        self.url.split_once("://").map_or(&*self.url, |(_, authority)| authority)
    }
}

/// A server's process, with all that it starts, and its directory. Both are gone when this is dropped, also where a test panics.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) place: tempfile::TempDir,
    child: Child,
}

impl Running {
    /// Starts a program, which is to write to `log` in its place, and waits until `answers` says so.
    pub(crate) fn start(place: tempfile::TempDir, mut command: Command, answers: impl Fn() -> bool) -> io::Result<Running> {
        let log = fs::File::create(place.path().join("log"))?;
        command.current_dir(place.path()).process_group(0);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let program = command.get_program().to_owned();
        let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", program.display()));
        let mut running = Running { place, child: crate::sshd::start_with_us(command).map_err(named)? };
        at_exit(&running);
        let until = Instant::now() + LONGEST_START;
        while !answers() {
            let ended = running.child.try_wait()?;
            if ended.is_some() || Instant::now() > until {
                let said = fs::read_to_string(running.place.path().join("log")).unwrap_or_default();
                let state = ended.map_or("does not answer".to_owned(), |status| format!("ended: {status}"));
                return Err(io::Error::other(format!("{} {state}: {said}", program.display())));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(running)
    }
}

impl Running {
    /// Starts the program that `command` makes for a directory and a free port of loopback, and waits until it listens there.
    pub(crate) fn listening(name: &str, command: impl FnOnce(&Path, u16) -> io::Result<Command>) -> io::Result<(Running, u16)> {
        let place = tempfile::Builder::new().prefix(&format!("haul-{name}-")).tempdir()?;
        // Some run with the rights of another user.
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755))?;
        let port = free_port()?;
        let command = command(place.path(), port)?;
        let running = Running::start(place, command, || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok())?;
        Ok((running, port))
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to all its processes.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_group(self.child.id(), signal);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        LEFT.lock().unwrap_or_else(PoisonError::into_inner).retain(|(id, _)| *id != self.child.id());
        kill_group(self.child.id(), Signal::KILL);
        let _ = self.child.wait();
    }
}

/// Servers that nothing has dropped yet, by their process, with their directories.
static LEFT: Mutex<Vec<(u32, PathBuf)>> = Mutex::new(Vec::new());

/// A server in a static is never dropped, and its directory is in memory: both go when the process exits.
fn at_exit(running: &Running) {
    static ONCE: Once = Once::new();
    extern "C" fn clear() {
        for (id, place) in std::mem::take(&mut *LEFT.lock().unwrap_or_else(PoisonError::into_inner)) {
            kill_group(id, Signal::KILL);
            // It may write until it has ended.
            let tries = (0..50).map(|_| std::thread::sleep(Duration::from_millis(10)));
            let _ = tries.map(|()| fs::remove_dir_all(&place)).find(|removed| removed.is_ok() || !place.exists());
        }
    }
    // SAFETY: the function is there as long as the process is, and does not unwind.
    ONCE.call_once(|| assert_eq!(unsafe { libc::atexit(clear) }, 0, "a handler for the exit"));
    LEFT.lock().unwrap_or_else(PoisonError::into_inner).push((running.child.id(), running.place.path().into()));
}

fn kill_group(id: u32, signal: Signal) {
    if let Some(group) = i32::try_from(id).ok().and_then(Pid::from_raw) {
        // It may have ended.
        let _ = rustix::process::kill_process_group(group, signal);
    }
}

/// The directory that the servers are installed in: `HAUL_TEST_SERVERS`, or `target/servers/bin` of the workspace.
pub fn programs() -> PathBuf {
    let installed = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/servers/bin");
    std::env::var_os("HAUL_TEST_SERVERS").map_or_else(installed, PathBuf::from)
}

/// A command that starts an installed server with no settings but those that are given to it.
fn server(name: impl AsRef<Path>, place: &Path) -> Command {
    let mut command = Command::new(programs().join(name));
    clean(&mut command, place);
    command
}

/// Takes all settings from a command but the path of programs.
fn clean<'a>(command: &'a mut Command, place: &Path) -> &'a mut Command {
    command.env_clear().env("PATH", std::env::var_os("PATH").as_deref().unwrap_or(OsStr::new("/usr/bin:/bin"))).env("HOME", place)
}

/// The least room that a directory in memory must have: no test puts more than some hundred megabytes into a server.
const ROOM_IN_MEMORY: u64 = 4 << 30;

/// A new directory whose file system keeps user attributes, where versitygw puts what it knows about an object. In memory where that
/// can be had: servers wait for the disk at each object.
fn place(prefix: &str) -> io::Result<tempfile::TempDir> {
    let memory = Path::new("/dev/shm");
    let mut new = tempfile::Builder::new();
    new.prefix(prefix);
    if rustix::fs::statvfs(memory).is_ok_and(|of| of.f_bavail.saturating_mul(of.f_frsize) >= ROOM_IN_MEMORY)
        && let Ok(in_memory) = new.tempdir_in(memory)
        && keeps_attributes(in_memory.path())
    {
        return Ok(in_memory);
    }
    let usual = new.tempdir()?;
    if keeps_attributes(usual.path()) { Ok(usual) } else { new.tempdir_in(programs()) }
}

fn keeps_attributes(path: &Path) -> bool {
    let name = "user.haul-test";
    setxattr(path, name, b"1", XattrFlags::empty()).and_then(|()| removexattr(path, name)).is_ok()
}
