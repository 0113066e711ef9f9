//! SSH servers of other makes on loopback: Dropbear, rclone, asyncssh, paramiko. `ssh-servers.sh` installs them.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::account::Account;
use crate::objects::Running;
use crate::port::free_port;

const PYTHON: &str = include_str!("sftp_server.py");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Make {
    /// With the sftp-server of OpenSSH, and a shell.
    Dropbear,
    /// `rclone serve sftp`: no links, and no modes.
    Rclone,
    Asyncssh,
    Paramiko,
}

impl Make {
    pub const ALL: [Make; 4] = [Make::Dropbear, Make::Rclone, Make::Asyncssh, Make::Paramiko];
}

/// The server, stopped when this is dropped.
#[derive(Debug)]
pub struct SshMake {
    running: Running,
    account: Option<Account>,
}

/// Where `ssh-servers.sh` puts what it installs.
fn installed(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/ssh-servers").join(name)
}

impl SshMake {
    /// rclone shows `root` as `/`, the others all of this machine. Dropbear has an account of its own, whose files they are.
    pub fn start(make: Make, root: &Path) -> io::Result<SshMake> {
        let place = tempfile::Builder::new().prefix("haul-ssh-").tempdir()?;
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755))?;
        let at = |name: &str| place.path().join(name);
        for key in ["host_key", "user_key"] {
            run(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-C", key, "-f"]).arg(at(key)))?;
        }
        let (port, public) = (free_port()?, fs::read_to_string(at("user_key.pub"))?);
        fs::write(at("authorized_keys"), &public)?;
        let account = (make == Make::Dropbear).then(|| Account::new("/bin/bash")).transpose()?;
        let command = match (make, &account) {
            (Make::Dropbear, Some(account)) => {
                account.file(".ssh/authorized_keys", &public)?;
                fs::set_permissions(account.home().join(".ssh"), fs::Permissions::from_mode(0o700))?;
                let dropbear = |program: &str| {
                    let mut command = Command::new(installed("dropbear/usr").join(program));
                    let libraries = format!("dropbear/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
                    command.env("LD_LIBRARY_PATH", installed(&libraries));
                    command
                };
                let converted = ["openssh", "dropbear"];
                run(dropbear("bin/dropbearconvert").args(converted).arg(at("host_key")).arg(at("host_key.dropbear")))?;
                let mut command = dropbear("sbin/dropbear");
                command.args(["-F", "-E", "-p", &format!("127.0.0.1:{port}"), "-P"]).arg(at("pid")).arg("-r").arg(at("host_key.dropbear"));
                command
            }
            (Make::Rclone, _) => {
                let mut command = Command::new("rclone");
                command.args(["serve", "sftp", "--addr", &format!("127.0.0.1:{port}"), "--config", "/dev/null", "--dir-cache-time", "0s"]);
                command.arg("--key").arg(at("host_key")).arg("--authorized-keys").arg(at("authorized_keys")).arg(root);
                command
            }
            _ => {
                fs::write(at("server.py"), PYTHON)?;
                let mut command = Command::new("python3");
                command.env("PYTHONPATH", installed("python")).arg("-B").arg(at("server.py"));
                command.arg(if make == Make::Asyncssh { "asyncssh" } else { "paramiko" });
                command.arg(port.to_string()).arg(at("host_key")).arg(at("authorized_keys"));
                command
            }
        };
        fs::write(at("known_hosts"), format!("[127.0.0.1]:{port} {}", fs::read_to_string(at("host_key.pub"))?))?;
        let client = format!(
            "Host testhost\n  HostName 127.0.0.1\n  Port {port}\n  User {}\nHost *\n  IdentityFile {}\n  IdentitiesOnly yes\n  \
             UserKnownHostsFile {}\n  GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n",
            account.as_ref().map_or("root", |account| &account.name),
            at("user_key").display(),
            at("known_hosts").display(),
        );
        fs::write(at("ssh_config"), client)?;
        let running = Running::start(place, command, || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok())?;
        Ok(SshMake { running, account })
    }

    /// For ssh's `-F`. It knows the server as `testhost`.
    pub fn config(&self) -> PathBuf {
        self.running.place.path().join("ssh_config")
    }

    /// Who owns what is written there, if that is not root.
    pub fn account(&self) -> Option<&Account> {
        self.account.as_ref()
    }
}

fn run(command: &mut Command) -> io::Result<()> {
    let made = command.stdin(Stdio::null()).output()?;
    if made.status.success() { Ok(()) } else { Err(io::Error::other(String::from_utf8_lossy(&made.stderr).into_owned())) }
}
