//! An account of this machine for the time of a test, with a home, a password and a login shell of its own.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The account, removed with its processes and its home when this is dropped.
#[derive(Debug)]
pub struct Account {
    pub name: String,
    pub password: String,
    pub uid: u32,
    pub gid: u32,
    home: tempfile::TempDir,
}

impl Account {
    /// `shell` must be an absolute path. Needs root.
    ///
    /// Errors: what useradd or chpasswd said.
    pub fn new(shell: &str) -> io::Result<Account> {
        if !rustix::process::geteuid().is_root() {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "making an account needs root"));
        }
        let home = tempfile::Builder::new().prefix("haul-home-").tempdir()?;
        // No name that anybody has, and none that has to be quoted.
        let name = format!("haul{:08x}", random() as u32);
        let password = format!("{:016x}", random());
        let path = home.path().display().to_string();
        patiently(|| run(Command::new("useradd").args(["-M", "-N", "-d", &path, "-s", shell, "-p", "*", &name]), ""))?;
        let mut account = Account { name, password, uid: 0, gid: 0, home };
        patiently(|| run(&mut Command::new("chpasswd"), &format!("{}:{}\n", account.name, account.password)))?;
        // Only a file of its own tells the number without a call into the C library's databases.
        let passwd = fs::read_to_string("/etc/passwd")?;
        let fields = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|fields| fields[0] == account.name);
        let number = |at: usize| fields.as_ref().and_then(|fields| fields.get(at)?.parse().ok());
        let (Some(uid), Some(gid)) = (number(2), number(3)) else { return Err(io::Error::other("useradd made no account")) };
        (account.uid, account.gid) = (uid, gid);
        account.give(account.home())?;
        fs::set_permissions(account.home(), fs::Permissions::from_mode(0o755))?;
        Ok(account)
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// A file of its home, which belongs to it; what has the name is replaced.
    pub fn file(&self, name: &str, content: &str) -> io::Result<()> {
        let path = self.home().join(name);
        if let Some(above) = path.parent().filter(|above| !above.exists()) {
            fs::create_dir_all(above)?;
            self.give(above)?;
        }
        fs::write(&path, content)?;
        self.give(&path)
    }

    /// Makes a file or directory (not what is in it) the account's.
    pub fn give(&self, path: &Path) -> io::Result<()> {
        chown(path, Some(self.uid), Some(self.gid))
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        if self.uid != 0 {
            end_all(self.uid);
        }
        let removed = patiently(|| run(Command::new("userdel").args(["-f", &self.name]), ""));
        if let Err(e) = removed {
            eprintln!("the account {} stays: {e}", self.name);
        }
    }
}

/// Ends what runs under a number that this made and nobody else has.
fn end_all(uid: u32) {
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid
            && entry.metadata().is_ok_and(|meta| meta.uid() == uid)
        {
            // It may be gone.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

/// The files of accounts are locked while another test changes them.
fn patiently(mut action: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    for _ in 0..50 {
        match action() {
            Err(e) if e.to_string().contains("lock") => std::thread::sleep(Duration::from_millis(100)),
            done => return done,
        }
    }
    action()
}

fn run(command: &mut Command, input: &str) -> io::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    if let Some(mut pipe) = child.stdin.take() {
        pipe.write_all(input.as_bytes())?;
    }
    let done = child.wait_with_output()?;
    // useradd and userdel warn of what is asked of them here (a home that is there, a shell that is in no list).
    if done.status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("{program}: {}: {}", done.status, String::from_utf8_lossy(&done.stderr).trim())))
}

fn random() -> u64 {
    use std::hash::BuildHasher;
    std::collections::hash_map::RandomState::new().hash_one(std::process::id())
}
